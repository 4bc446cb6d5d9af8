"""A system as SVG: the DOT drawing, laid out by Graphviz, which the wheel of `pygraphviz` brings along."""

from __future__ import annotations

import networkx as nx

from drmas_dsl.errors import UserError
from drmas_dsl.views import dot


def draw(graph: nx.MultiDiGraph, settings: bool = False) -> str:
    """The system in SVG; with `settings`, every agent's hyper-parameters.

    Raises:
        UserError: pygraphviz is not installed.
    """
    try:
        from pygraphviz import AGraph
    except ImportError as error:
        raise UserError("an SVG needs Graphviz", "install it with: pip install 'drmasc[views]'") from error
    drawn: bytes = AGraph(string=dot.draw(graph, settings)).draw(format="svg", prog="dot")
    return drawn.decode("utf-8")

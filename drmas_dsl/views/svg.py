"""A system as SVG: the DOT drawing, laid out by Graphviz, which the wheel of `pygraphviz` brings along."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    with _quiet():
        drawn: bytes = AGraph(string=dot.draw(graph, settings)).draw(format="svg", prog="dot")
    return drawn.decode("utf-8")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what C libraries print: the wheel's fontconfig is older than most systems' configuration, and says so. What
    goes wrong raises all the same."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

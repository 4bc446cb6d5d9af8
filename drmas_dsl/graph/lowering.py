"""From a checked system to its execution graph.

`skeleton` makes nodes and edges, `flow_types` types the expressions and puts them in. Findings that need the ways through
the graph are made in `analyses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.binding import Names, bindings, names_of
from drmas_dsl.graph.expressions import const
from drmas_dsl.graph.flow_types import type_flow
from drmas_dsl.graph.patterns import check_pattern
from drmas_dsl.graph.skeleton import END, Pending, Skeleton
from drmas_dsl.graph.walks import Edge, EdgeKey, edges_of, walk_of
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph, and what the analyses need besides.

    Paths without a `return` lead to the node `END`, which `finished` takes out. `edges` of each node in order; `places` of
    nodes; `conditions` and `values` as they were written (`value`, or a tool's arguments by name); the pattern calls around
    a node; the count of each loop as written; by which branch an edge comes into a join, and what each branch of a fork
    binds; the patterns that are called, and all patterns' parameters; the `names` that the flow binds, and what is known of
    them before each node that is reached (see `binding`).
    """

    graph: nx.MultiDiGraph
    edges: Mapping[str, list[Edge]]
    places: Mapping[str, Span]
    conditions: Mapping[EdgeKey, ast.Expr]
    values: Mapping[str, Mapping[str, ast.Expr]]
    calls: Mapping[str, tuple[Span, ...]]
    counts: Mapping[str, ast.Expr]
    arrivals: Mapping[EdgeKey, int]
    bound_in: Mapping[str, tuple[frozenset[str], ...]]
    called_patterns: frozenset[str]
    parameters: Mapping[str, tuple[str, ...]]
    names: Names
    facts: Mapping[str, int]


def lower(checked: Checked, report: Report) -> Lowered | None:
    """The flow of a checked system as its execution graph; None where there is no flow. With errors in the report the graph
    is good for further analyses only."""
    for pattern in checked.patterns.values():
        check_pattern(pattern, checked.scope, checked.places, report)
    if checked.flow is None:
        return None
    skeleton = Skeleton(checked, report)
    skeleton.build(checked.flow)
    graph = skeleton.graph
    graph.graph["system"] = checked.system
    names = names_of(graph)
    edges = edges_of(graph)
    walk = walk_of(graph, edges, fine=False)
    before, _, _ = bindings(graph, edges, walk, names, skeleton.arrivals, skeleton.bound_in)
    facts = {node: before[number] for number, (node, _) in enumerate(walk.states)}
    type_flow(checked, graph, names, facts, skeleton.pending, report)
    return Lowered(
        graph,
        edges_of(graph),
        skeleton.places,
        {(item.node, item.order): item.expr for item in skeleton.pending if item.key == "condition"},
        {item.node: _written(item) for item in skeleton.pending if item.key != "condition"},
        skeleton.calls_of,
        skeleton.counts,
        skeleton.arrivals,
        skeleton.bound_in,
        frozenset(skeleton.called_patterns),
        {name: tuple(p.name for p in pattern.parameters) for name, pattern in checked.patterns.items()},
        names,
        facts,
    )


def finished(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """The graph of a flow in which no trajectory gets to `END`, without it. What would lead there and can never run is given a
    `return none`, so that only returns have no edge."""
    if END not in graph:
        return graph
    stuck = [
        (u, data) for u, _, data in graph.in_edges(END, data=True) if graph.nodes[u]["kind"] not in ("branch", "loop")
    ]
    graph.remove_node(END)
    if stuck:
        node = f"n{len(graph)}"
        graph.add_node(node, kind="return", loops=[], value=const(None))
        for source, data in stuck:
            graph.add_edge(source, node, **data)
    return graph


def _written(item: Pending) -> dict[str, ast.Expr]:
    """The expressions of a node as they were written."""
    if item.key == "value":
        return {"value": item.expr}
    return {name: value for name, value in item.bound.items() if not isinstance(value, tuple)}

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
from drmas_dsl.graph.flow_types import type_flow
from drmas_dsl.graph.patterns import check_pattern
from drmas_dsl.graph.skeleton import Pending, Skeleton
from drmas_dsl.graph.walks import EdgeKey, walk_of
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph, and what the analyses need besides: places of nodes, conditions and values as they were written (`value`, or the
    arguments of a tool by name), the pattern calls around a node, the count of each loop as written, by which branch an edge comes into a join, what each branch of a fork binds, and the
    edges that leave the flow without a `return`, the patterns that are called, all patterns' parameters; `names` that the flow binds, and what is known of them before each node
    that is reached (see `binding`)."""

    graph: nx.MultiDiGraph
    places: Mapping[str, Span]
    conditions: Mapping[EdgeKey, ast.Expr]
    values: Mapping[str, Mapping[str, ast.Expr]]
    calls: Mapping[str, tuple[Span, ...]]
    counts: Mapping[str, ast.Expr]
    arrivals: Mapping[EdgeKey, int]
    bound_in: Mapping[str, tuple[frozenset[str], ...]]
    open_ends: tuple[EdgeKey, ...]
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
    open_ends = skeleton.build(checked.flow)
    graph = skeleton.graph
    graph.graph["system"] = checked.system
    names = names_of(graph)
    walk = walk_of(graph, open_ends, fine=False)
    before, _, _ = bindings(graph, walk, names, skeleton.arrivals, skeleton.bound_in)
    facts = {node: before[number] for number, (node, _) in enumerate(walk.states)}
    type_flow(checked, graph, names, facts, skeleton.pending, report)
    return Lowered(
        graph,
        skeleton.places,
        {(item.node, item.order): item.expr for item in skeleton.pending if item.key == "condition"},
        {item.node: _written(item) for item in skeleton.pending if item.key != "condition"},
        skeleton.calls_of,
        skeleton.counts,
        skeleton.arrivals,
        skeleton.bound_in,
        open_ends,
        frozenset(skeleton.called_patterns),
        {name: tuple(p.name for p in pattern.parameters) for name, pattern in checked.patterns.items()},
        names,
        facts,
    )


def _written(item: Pending) -> dict[str, ast.Expr]:
    """The expressions of a node as they were written."""
    if item.key == "value":
        return {"value": item.expr}
    return {name: value for name, value in item.bound.items() if not isinstance(value, tuple)}

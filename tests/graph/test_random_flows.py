"""Random flows: their graphs do what the statements say, and what the analyses promise holds on every walk."""

from __future__ import annotations

import contextlib

import networkx as nx
from hypothesis import assume, given, settings

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.analyses import analyse
from drmas_dsl.graph.binding import bindings
from drmas_dsl.graph.history import longest_histories
from drmas_dsl.graph.lowering import Lowered, finished, lower
from drmas_dsl.graph.serialize import from_json, to_json
from drmas_dsl.graph.walks import taken_edges, walk_of
from drmas_dsl.syntax import ast
from drmas_dsl.views.structure import structure
from tests.graph.random_flows import FLOWS, Leave, World, replay, run, walk
from tests.graph.systems import checked, graphs_equal

SEEDS = range(8)


def lowered(text: str) -> tuple[Lowered, ast.FlowDecl]:
    """The graph of a flow without statements that can never run."""
    system = checked(text)
    report = Report()
    found = lower(system, report)
    assert found is not None and system.flow is not None
    errors = {finding.code for finding in report.diagnostics if finding.severity == "error"}
    assert errors <= {"E0501"}, report.diagnostics
    assume(not errors)
    return found, system.flow


@given(FLOWS)
@settings(max_examples=60)
def test_the_graph_does_what_the_statements_say(text: str) -> None:
    found, flow = lowered(text)
    graph = finished(found.graph)
    assert set(nx.descendants(graph, "n0")) | {"n0"} == set(graph), "every node is reachable"
    assert all(graph.out_degree(node) for node, kind in graph.nodes(data="kind") if kind != "return")
    assert [int(node[1:]) for node in graph] == list(range(len(graph)))
    for seed in SEEDS:
        direct, walked, again = World(seed), World(seed), World(seed)
        with contextlib.suppress(Leave):
            run(flow.body, direct)
        walk(graph, walked)
        with contextlib.suppress(Leave):
            replay(graph, structure(graph), again)
        calls = [agent for agent, _ in direct.calls]
        assert [agent for agent, _ in walked.calls] == calls
        assert [agent for agent, _ in again.calls] == calls, "the blocks found in the graph"


@given(FLOWS)
@settings(max_examples=60)
def test_walks_stay_within_what_the_analyses_know(text: str) -> None:
    found, _ = lowered(text)
    graph = finished(found.graph)
    fine = walk_of(graph, found.edges, fine=True)
    facts, _, _ = bindings(graph, found.edges, fine, found.names, found.arrivals, found.bound_in)
    at: dict[str, int] = {}
    for number, (node, _) in enumerate(fine.states):
        at[node] = at.get(node, 0) | facts[number]
    taken = taken_edges(graph)
    longest = longest_histories(found, fine)
    for seed in SEEDS:
        world = World(seed)
        trace = walk(graph, world)
        assert trace.edges <= taken
        assert all(turns <= longest[agent].turns for agent, turns in world.seen.items())
        for node, bound in trace.nodes:
            for name in found.names.numbers:
                one, many = found.names.one(at[node], name), found.names.list(at[node], name)
                assert (one or many) if name in bound else found.names.unbound(at[node], name), (node, name)
                plain = found.facts[node]
                assert name not in bound or found.names.one(plain, name) or found.names.list(plain, name)


@given(FLOWS)
@settings(max_examples=25)
def test_json_gives_the_graph_back(text: str) -> None:
    found, _ = lowered(text)
    graph = finished(found.graph)
    written = to_json(graph, "/base")
    read = from_json(written, "/base")
    assert graphs_equal(graph, read)
    assert to_json(read, "/base") == written


@given(FLOWS)
@settings(max_examples=25)
def test_findings_point_into_the_text(text: str) -> None:
    system = checked(text)
    report = Report()
    found = lower(system, report)
    assert found is not None
    analyse(system, found, [], report)
    for finding in report.diagnostics:
        assert 0 <= finding.span.start < finding.span.end <= len(text)
        assert finding.code[:3] in ("E05", "W05", "W02")

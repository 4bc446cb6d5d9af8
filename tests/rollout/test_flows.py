"""Random flows end, and walk as a plain reading of them says: the same turns, prompts and history, in the same order."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.serialize import from_json, to_json
from runtime.engines.protocol import Request
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout
from tests.rollout.flows import COLUMNS, Reading, flows, says, source
from tests.rollout.support import TOKENIZER, Scripted

ROWS = [dict(zip(COLUMNS, bits, strict=True)) for bits in itertools.product((0, 1), repeat=len(COLUMNS))]


def answer(request: Request, prompt: str) -> str:
    return says(prompt[0], prompt)


def roll(made: nx.MultiDiGraph, immediate: bool) -> list[Trajectory]:
    engines, tokenizers = {"m": Scripted(answer)}, {"m": TOKENIZER}
    work = rollout(
        made, ROWS[::3], step=1, group_size=1, seed=0, engines=engines, tokenizers=tokenizers, immediate=immediate
    )
    return asyncio.run(work)


@pytest.mark.parametrize("immediate", [False, True])
@given(flow=flows())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_flow_walks_as_it_reads(tmp_path: Path, immediate: bool, flow: list[Any]):
    path = tmp_path / "random.mas"
    path.write_text(source(flow))
    for trajectory in roll(compile_file(path), immediate):
        reading = Reading(dict(trajectory.row))
        reading.block(flow, 0)
        assert trajectory.failed is None
        assert [(turn.agent, turn.prompt, turn.text) for turn in trajectory.turns] == reading.turns
        assert [turn.index for turn in trajectory.turns] == list(range(len(reading.turns)))
        assert trajectory.result == reading.judged
        assert trajectory.reward == (reading.judged == "yes")


@given(flow=flows(), data=st.data())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_graph_with_an_added_edge_ends(tmp_path: Path, flow: list[Any], data: st.DataObject):
    """Wherever the edge leads: out of a loop or a branch, into one, or back."""
    path = tmp_path / "random.mas"
    path.write_text(source(flow))
    made = compile_file(path)
    source_node, target = (data.draw(st.sampled_from(list(made))) for _ in range(2))
    made.add_edge(source_node, target, order=-1, condition=None)
    for trajectory in roll(made, immediate=False):
        assert trajectory.failed is None or "the graph" in trajectory.failed


def test_a_graph_walks_the_same_after_json(tmp_path: Path):
    path = tmp_path / "random.mas"
    path.write_text(
        source([("call", "J"), ("loop", 2, [("copies", 2, [("call", "A")]), ("if", ("loop", 1), [("call", "B")], [])])])
    )
    made = compile_file(path)
    again = from_json(to_json(made, str(tmp_path)), str(tmp_path))
    first, second = ([[replace(t, seconds=0) for t in walk.turns] for walk in roll(g, False)] for g in (made, again))
    assert first == second and len(first[0]) == 6


def test_an_added_edge_changes_what_runs(tmp_path: Path):
    """The graph is what runs: nothing of the text is asked again."""
    path = tmp_path / "random.mas"
    path.write_text(source([("call", "A"), ("call", "B"), ("call", "J")]))
    made = compile_file(path)
    calls = [node for node, agent in made.nodes(data="agent") if agent]
    assert {tuple(turn.agent for turn in walk.turns) for walk in roll(made, False)} == {("A", "B", "J")}
    made.add_edge(calls[0], calls[2], order=-1, condition=None)
    assert {tuple(turn.agent for turn in walk.turns) for walk in roll(made, False)} == {("A", "J")}

"""Trajectories that take too long fail alone, wherever they are: at a tool, at an engine, in a fork."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

import runtime.retrieval.client  # noqa: F401  a cold import takes longer than these trajectories may
from drmas_dsl.graph.settings import Call, Sampling, Tool, Train
from runtime.engines.protocol import Completion, Request
from runtime.records import Trajectory
from runtime.rollout.scheduler import Gate, rollout
from tests.rollout.support import TOKENIZER, Nodes, Scripted, agent, chain, const, graph, op, output, system

ROWS: list[dict[str, Any]] = [
    {"id": name, "question": f"{name}?", "answer": "x", "facts": {}} for name in ("slow", "b", "c")
]
LATE = "it took longer than 1 s (`train.trajectory_timeout`)"


def roll(made: nx.MultiDiGraph, engine: Any, **settings: Any) -> list[Trajectory]:
    """A rollout of all rows, two trajectories each, which must not hang."""
    made.graph["system"] = replace(made.graph["system"], train=Train(trajectory_timeout=1.0))

    async def run() -> list[Trajectory]:
        async with asyncio.timeout(10):
            return await rollout(
                made, ROWS, step=1, group_size=2, seed=0, engines={"m": engine}, tokenizers={"m": TOKENIZER}, **settings
            )

    return asyncio.run(run())


def failed(trajectories: list[Trajectory]) -> list[str | None]:
    return [trajectory.failed for trajectory in trajectories]


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/retrieve"


def test_a_walker_at_a_slow_tool_leaves_the_gate(silent: str) -> None:
    nodes: Nodes = {
        "n0": {"kind": "start"},
        "n1": {"kind": "call", "agent": "A"},
        "n2": {"kind": "branch"},
        "n3": {"kind": "tool", "tool": "find", "args": {"query": output("A", "answer")}, "bind": "found"},
        "n4": {"kind": "call", "agent": "B"},
        "n5": {"kind": "return", "value": output("B", "answer")},
    }
    edges = [
        ("n0", "n1"),
        ("n1", "n2"),
        ("n2", "n3", op("==", {"kind": "task", "name": "id"}, const("slow"))),
        ("n2", "n4"),
        ("n3", "n4"),
        ("n4", "n5"),
    ]
    tools = {"find": Tool("find", Call("http_retriever", {"url": silent}))}
    engine = Scripted(lambda request, prompt: "<a>x</a>")
    trajectories = roll(graph(system([agent("A"), agent("B")], tools=tools), nodes, edges), engine)
    assert failed(trajectories) == [LATE] * 2 + [None] * 4
    assert [len(batch) for batch in engine.batches] == [6, 4]
    assert [len(trajectory.turns) for trajectory in trajectories] == [1, 1, 2, 2, 2, 2]
    assert 1.0 <= trajectories[0].seconds < 5


class Slow(Scripted):
    """Takes two seconds for each batch in which a trajectory of the first question is."""

    async def generate(self, requests: list[Request]) -> list[Completion]:
        self.seconds = 2.0 if any(request.order[0] == 0 for request in requests) else 0.0
        return await super().generate(requests)


def test_without_a_gate_only_those_of_the_slow_request_fail() -> None:
    engine = Slow(lambda request, prompt: "<a>x</a>")
    trajectories = roll(chain(system([agent("A"), agent("B")]), "A", "B"), engine, immediate=True)
    assert failed(trajectories) == [LATE] * 2 + [None] * 4


def test_time_in_front_of_the_gate_and_behind_it_is_not_the_trajectorys_own() -> None:
    """All of them wait for the slowest, and none is to blame."""
    engine = Slow(lambda request, prompt: "<a>x</a>")
    assert failed(roll(chain(system([agent("A")]), "A"), engine)) == [None] * 6


@pytest.mark.parametrize("immediate", [False, True])
def test_the_branches_of_a_fork_end_with_their_trajectory(immediate: bool, silent: str) -> None:
    """One branch hangs at its tool, the other waits for its turn in front of the gate."""
    nodes: Nodes = {
        "n0": {"kind": "start"},
        "n1": {"kind": "fork", "join": "n5", "copies": None},
        "n2": {"kind": "branch"},
        "n3": {"kind": "tool", "tool": "find", "args": {"query": const("x")}, "bind": "found"},
        "n4": {"kind": "call", "agent": "A"},
        "n5": {"kind": "join", "fork": "n1"},
        "n6": {"kind": "call", "agent": "B"},
        "n7": {"kind": "return", "value": output("B", "answer")},
    }
    edges = [
        ("n0", "n1"),
        ("n1", "n2"),
        ("n1", "n4"),
        ("n2", "n3", op("==", {"kind": "task", "name": "id"}, const("slow"))),
        ("n2", "n5"),
        ("n3", "n5"),
        ("n4", "n5"),
        ("n5", "n6"),
        ("n6", "n7"),
    ]
    tools = {"find": Tool("find", Call("http_retriever", {"url": silent}))}
    engine = Scripted(lambda request, prompt: "<a>x</a>")
    made = graph(system([agent("A"), agent("B")], tools=tools), nodes, edges)
    made.graph["system"] = replace(made.graph["system"], train=Train(trajectory_timeout=1.0))
    trajectories = roll(made, engine, immediate=immediate)
    assert failed(trajectories) == [LATE] * 2 + [None] * 4


def test_a_walker_that_is_cancelled_in_the_moment_of_its_answer_is_counted_once() -> None:
    """The other one must still come through the gate."""

    async def run() -> list[list[Request]]:
        engine = Scripted(lambda request, prompt: "<a>x</a>")
        gate = Gate({"m": engine}, 2)
        first, second = (Request("A", (1,), Sampling(), 0, (n, 0, 0)) for n in range(2))

        async def go_on() -> None:
            await gate.generate("m", first)
            await gate.generate("m", first)
            gate.leave()

        async def fail() -> None:
            try:
                await gate.generate("m", second)
            finally:
                gate.leave()

        other, task = asyncio.create_task(go_on()), asyncio.create_task(fail())
        while not task.done():
            waiting = getattr(task, "_fut_waiter", None)
            if waiting is not None and waiting.done():
                task.cancel()  # it has its answer, and has not run since
            await asyncio.sleep(0)
        assert task.cancelled()
        async with asyncio.timeout(5):
            await other
        return engine.batches

    assert [len(batch) for batch in asyncio.run(run())] == [2, 1]

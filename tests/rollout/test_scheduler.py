"""When requests go to the engines: the gate, its order, several models, and what goes wrong there."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.engines.protocol import Completion, Request
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout
from tests.rollout.support import TINY, TOKENIZER, Scripted, agent, chain, const, looped, op, output, system

ROWS: list[dict[str, Any]] = [
    {"id": name, "question": f"{name}?", "answer": "x", "facts": {}} for name in ("a", "b", "c")
]


def roll(made: Any, engines: Any, **settings: Any) -> list[Trajectory]:
    given: dict[str, Any] = {"rows": ROWS, "step": 1, "group_size": 2, "seed": 0, **settings}
    rows = given.pop("rows")
    return asyncio.run(rollout(made, rows, engines=engines, tokenizers=dict.fromkeys(engines, TOKENIZER), **given))


def test_a_batch_holds_every_trajectory_in_order():
    engine = Scripted(lambda request, prompt: "<a>x</a>")
    trajectories = roll(looped(system([agent("A"), agent("B")]), 2, "A", "B"), {"m": engine})
    assert [(t.question, t.index, t.id) for t in trajectories] == [
        (q, i, f"{q}/{i}") for q in ("a", "b", "c") for i in (0, 1)
    ]
    assert [request.order for request in engine.batches[0]] == [(q, i, 0) for q in (0, 1, 2) for i in (0, 1)]
    assert [len(batch) for batch in engine.batches] == [6] * 4
    assert all(batch == sorted(batch, key=lambda request: request.order) for batch in engine.batches)


def test_those_that_end_early_are_not_waited_for():
    made = looped(system([agent("A")]), 3, "A")
    made.add_node("stop", kind="branch", loops=["n1"])
    made.remove_edge("n2", "n1")
    made.add_edge("n2", "stop", order=50, condition=None)
    made.add_edge("stop", "end", order=51, condition=op("==", output("A", "answer"), const("done")))
    made.add_edge("stop", "n1", order=52, condition=None)
    engine = Scripted(lambda request, prompt: "<a>done</a>" if request.order[0] <= request.order[2] else "<a>x</a>")
    trajectories = roll(made, {"m": engine})
    assert [len(batch) for batch in engine.batches] == [6, 4, 2]
    assert [len(trajectory.turns) for trajectory in trajectories] == [1, 1, 2, 2, 3, 3]


class Meeting(Scripted):
    """Answers its first two batches only when the other one is at work, too."""

    both: asyncio.Barrier

    async def generate(self, requests: list[Request]) -> list[Completion]:
        if len(self.batches) < 2:
            async with asyncio.timeout(5):
                await self.both.wait()
        return await super().generate(requests)


def test_models_are_asked_at_once_and_in_rounds():
    models = {"m": TINY, "n": replace(TINY, name="n")}
    made = chain(system([agent("A"), agent("B", model="n"), agent("C")], models=models), "A", "B", "C")
    # The first question's flow begins with B, so that both models have requests in the first round.
    made.add_node("first", kind="branch", loops=[])
    made.remove_edge("n0", "n1")
    made.add_edge("n0", "first", order=20, condition=None)
    made.add_edge("first", "n2", order=21, condition=op("==", {"kind": "task", "name": "id"}, const("a")))
    made.add_edge("first", "n1", order=22, condition=None)
    first, second = (Meeting(lambda request, prompt: "<a>x</a>") for _ in "mn")
    first.both = second.both = asyncio.Barrier(2)
    roll(made, {"m": first, "n": second}, group_size=1)
    assert [[request.policy for request in batch] for batch in first.batches] == [["A", "A"], ["C"], ["C", "C"]]
    assert [len(batch) for batch in second.batches] == [1, 2]


def test_immediate_requests_do_not_wait_for_others():
    engine = Scripted(lambda request, prompt: "<a>x</a>")
    roll(chain(system([agent("A")]), "A"), {"m": engine}, immediate=True)
    assert [len(batch) for batch in engine.batches] == [1] * 6
    remote = {"m": replace(TINY, engine=Call("vllm"))}
    roll(chain(system([agent("A")], models=remote), "A"), {"m": engine})
    assert [len(batch) for batch in engine.batches] == [1] * 12


class Jittery(Scripted):
    """Takes its time, differently for every batch."""

    async def generate(self, requests: list[Request]) -> list[Completion]:
        self.seconds = (hash(requests[0].seed) + len(self.batches)) % 7 / 500
        return await super().generate(requests)


def test_the_same_seed_gives_the_same_rollout_and_another_one_does_not():
    made = looped(system([agent("A"), agent("B", "{{ A.answer }}")]), 2, "A", "B")

    def run(seed: int, immediate: bool) -> list[Any]:
        engine = Jittery(lambda request, prompt: f"<a>{request.seed % 1000}</a>")
        trajectories = roll(made, {"m": engine}, seed=seed, immediate=immediate)
        return [[replace(turn, seconds=0.0) for turn in trajectory.turns] for trajectory in trajectories]

    assert run(0, False) == run(0, False) == run(0, True)
    assert run(0, False) != run(1, False)


def test_a_question_that_comes_twice_has_members_of_its_own():
    engine = Scripted(lambda request, prompt: f"<a>{request.seed}</a>")
    trajectories = roll(chain(system([agent("A")]), "A"), {"m": engine}, rows=[ROWS[0], ROWS[0]])
    assert [trajectory.id for trajectory in trajectories] == ["a/0", "a/1", "a/2", "a/3"]
    assert len({trajectory.result for trajectory in trajectories}) == 4


def test_an_engine_that_fails_fails_its_trajectories_with_the_reason():
    def script(request: Request, prompt: str) -> str:
        if request.policy == "B":
            raise ConnectionError("worker is gone")
        return "<a>x</a>"

    trajectories = roll(chain(system([agent("A"), agent("B")]), "A", "B"), {"m": Scripted(script)})
    assert {trajectory.failed for trajectory in trajectories} == {"B: ConnectionError: worker is gone"}
    assert all([turn.agent for turn in trajectory.turns] == ["A"] for trajectory in trajectories)


def test_one_request_can_fail_alone():
    class Partly(Scripted):
        async def generate(self, requests: list[Request]) -> list[Any]:
            answers: list[Any] = await super().generate(requests)
            return [
                TimeoutError("slow") if request.order[0] == 1 else a
                for request, a in zip(requests, answers, strict=True)
            ]

    engine = Partly(lambda request, prompt: "<a>x</a>")
    for immediate in (False, True):
        trajectories = roll(chain(system([agent("A")]), "A"), {"m": engine}, immediate=immediate)
        assert [t.failed for t in trajectories] == [
            None,
            None,
            "A: TimeoutError: slow",
            "A: TimeoutError: slow",
            None,
            None,
        ]


def test_too_few_completions_are_an_error_of_the_engine():
    class Short(Scripted):
        async def generate(self, requests: list[Request]) -> list[Completion]:
            return (await super().generate(requests))[1:]

    trajectories = roll(chain(system([agent("A")]), "A"), {"m": Short(lambda request, prompt: "x")})
    assert {t.failed for t in trajectories} == {"A: RuntimeError: 5 completions for 6 requests"}


def test_what_the_user_must_mend_reaches_them():
    def script(request: Request, prompt: str) -> str:
        raise UserError("the key is wrong", "set it")

    for immediate in (False, True):
        with pytest.raises(UserError, match="the key is wrong"):
            roll(chain(system([agent("A")]), "A"), {"m": Scripted(script)}, immediate=immediate)


def test_a_rollout_can_be_cancelled():
    async def work() -> None:
        engine = Scripted(lambda request, prompt: "x", seconds=30)
        made = chain(system([agent("A")]), "A")
        work = rollout(made, ROWS, step=1, group_size=2, seed=0, engines={"m": engine}, tokenizers={"m": TOKENIZER})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.05)
        await asyncio.sleep(0)

    begin = time.perf_counter()
    asyncio.run(work())
    assert time.perf_counter() - begin < 5

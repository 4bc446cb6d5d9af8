"""The gate over the embedded engine: a real model generates, and a step repeats bit for bit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from drmas_dsl.graph.settings import Sampling
from runtime.engines.hf import HfEngine
from runtime.engines.protocol import Request
from runtime.rollout.scheduler import rollout
from tests.rollout.support import TINY, TOKENIZER, agent, looped, system


class Local:
    """The engine in a thread of this process."""

    def __init__(self, engine: HfEngine) -> None:
        self.engine = engine
        self.requests: list[Request] = []

    async def generate(self, requests: list[Request]) -> list[Any]:
        self.requests += requests
        return await asyncio.to_thread(self.engine.generate, requests)


def test_a_step_repeats_bit_for_bit():
    sampling = Sampling(max_tokens=12)
    prompt = "{{ task.question }}{% for turn in history %} {{ turn.text }}{% endfor %}"
    made = looped(system([agent(name, prompt, sampling=sampling) for name in "AB"]), 2, "A", "B")
    rows = [{"id": str(n), "question": "Why " * n, "answer": "x"} for n in (1, 5)]
    engine = Local(HfEngine(TINY, ["A", "B"], ""))

    def run() -> list[Any]:
        work = rollout(made, rows, step=1, group_size=3, seed=0, engines={"m": engine}, tokenizers={"m": TOKENIZER})
        return [replace(turn, seconds=0.0) for trajectory in asyncio.run(work) for turn in trajectory.turns]

    first, second = run(), run()
    assert first == second and len(first) == 2 * 3 * 4
    assert len({turn.response_ids for turn in first}) > len(first) / 2
    for turn in first:
        assert 1 <= len(turn.response_ids) == len(turn.logprobs) <= 12
        assert all(logprob <= 0 for logprob in turn.logprobs)
        assert turn.truncated == (turn.response_ids[-1] != TOKENIZER.eos_token_id)
    assert [request.order for request in engine.requests[:6]] == [(q, t, 0) for q in (0, 1) for t in (0, 1, 2)]

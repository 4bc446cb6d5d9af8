"""Turns and settings of a tiny policy that two agents share, for the learner's tests."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from drmas_dsl.graph import settings
from drmas_dsl.graph.settings import Call
from runtime.learning.learner import Learner
from runtime.records import Turn

MODEL = settings.Model(
    name="policy", weights=Call("tiny", {"hidden": 32, "layers": 2, "heads": 2, "seed": 1}), engine=Call("hf")
)


def make_turn(*, prompt: int, response: int, seed: int, agent: str = "Solver", **fields: Any) -> Turn:
    """A turn of random bytes with `prompt` and `response` tokens."""
    draw = random.Random(seed)
    values: dict[str, Any] = {
        "step": 1,
        "question": f"q{seed % 2}",
        "trajectory": f"t{seed}",
        "agent": agent,
        "policy": "policy",
        "index": 0,
        "prompt_ids": tuple(draw.randrange(256) for _ in range(prompt)),
        "response_ids": tuple(draw.randrange(256) for _ in range(response)),
        "logprobs": tuple(draw.uniform(-7, -4) for _ in range(response)),
        "weights_version": 0,
        "temperature": 1.0,
        "prompt": "",
        "text": "",
        "outputs": {},
        "valid": True,
        "defaulted": False,
        "truncated": False,
        "advantage": draw.gauss(0, 1),
    }
    return Turn(**values | fields)


def make_turns(count: int = 10) -> list[Turn]:
    """Turns of two agents, of different lengths and temperatures."""
    return [
        make_turn(
            prompt=3 + 5 * i % 17,
            response=1 + 7 * i % 11,
            seed=i,
            agent=("Solver", "Verifier")[i % 2],
            temperature=(1.0, 0.7)[i % 2],
        )
        for i in range(count)
    ]


def make_learner(
    algorithm: Call | None = None,
    *,
    loss: dict[str, settings.Loss] | None = None,
    optimizer: settings.Optimizer | None = None,
    aggregate: str = "token_mean",
    micro_tokens: int = 16384,
    model: settings.Model = MODEL,
    seed: int = 0,
    frozen: tuple[str, ...] = (),
    lora: settings.Lora | None = None,
    **train: Any,
) -> Learner:
    """A learner of the shared tiny policy."""
    agents = {
        name: settings.Agent(
            name=name,
            model="policy",
            policy="policy",
            loss=(loss or {}).get(name, settings.Loss()),
            sampling=settings.Sampling(max_tokens=16),
            frozen=name in frozen,
        )
        for name in ("Solver", "Verifier")
    }
    policy = settings.Policy(
        name="policy",
        model="policy",
        agents=("Solver", "Verifier"),
        frozen=False,
        optimizer=optimizer or settings.Optimizer(lr=1e-3),
        aggregate=aggregate,
        micro_tokens=micro_tokens,
        lora=lora,
    )
    arguments = dataclasses.replace(settings.Train(), algorithm=algorithm or Call("grpo"), **train)
    return Learner(policy, model, agents, arguments, ".", seed)

"""gym.mas: its questions as the prompts show them, and a flow that pays who solves them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import graphs
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from runtime.data import load_rows
from runtime.rollout.scheduler import rollout
from tests.rollout.support import TOKENIZER, Scripted

pytest.importorskip("reasoning_gym")
TINY = [
    "policy.weights=tiny(hidden = 16, layers = 1, heads = 2)",
    "Member.sampling.max_tokens=16",
]  # a token is a byte here


def played(first: int, then: int) -> list[Any]:
    """Trajectories of a Solver that is so far off at first and when it tries again, and a Verifier who can reckon."""
    graph = compile_file(Path(graphs.__file__).parent / "gym.mas", TINY)
    system = system_of(graph)
    assert system.task.train is not None
    rows = load_rows(system.task.train, system.base)[:6]
    asked: set[str] = set()

    def play(request: Any, prompt: str) -> str:
        line = prompt.splitlines()[-1]
        a, sign, b, said = re.fullmatch(r"(\d) ([+-]) (\d) =( -?\d+\?)?", line).groups()  # type: ignore[union-attr]
        right = int(a) + int(sign + b)
        if said:
            return " yes" if int(said[:-1]) == right else " no"
        off = then if line in asked else first
        asked.add(line)
        return f" {right + off}"

    return asyncio.run(
        rollout(
            graph,
            rows,
            step=0,
            group_size=1,
            seed=0,
            engines={"policy": Scripted(play)},
            tokenizers={"policy": TOKENIZER},
        )
    )


@pytest.mark.parametrize(
    ("first", "then", "reward", "turns"), [(0, 1, 1, 2), (1, 0, 1, 3), (1, 2, 0, 3)], ids=["right", "second", "wrong"]
)
def test_who_reckons_right_is_rewarded(first: int, then: int, reward: float, turns: int):
    for trajectory in played(first, then):
        assert trajectory.failed is None
        assert (trajectory.reward, trajectory.success, len(trajectory.turns)) == (reward, bool(reward), turns)
        assert all(turn.valid for turn in trajectory.turns)

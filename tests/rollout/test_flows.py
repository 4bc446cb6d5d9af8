"""Random flows end, and walk as a plain reading of them says: the same turns, prompts and history, in the same order."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from drmas_dsl.compiler import compile_file
from runtime.engines.protocol import Request
from runtime.rollout.scheduler import rollout
from tests.rollout.flows import COLUMNS, Reading, flows, says, source
from tests.rollout.support import TOKENIZER, Scripted

ROWS = [dict(zip(COLUMNS, bits, strict=True)) for bits in itertools.product((0, 1), repeat=len(COLUMNS))]


def answer(request: Request, prompt: str) -> str:
    return says(prompt[0], prompt)


@pytest.mark.parametrize("immediate", [False, True])
@given(flow=flows())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_flow_walks_as_it_reads(tmp_path: Path, immediate: bool, flow: list[Any]):
    path = tmp_path / "random.mas"
    path.write_text(source(flow))
    work = rollout(
        compile_file(path),
        ROWS[::3],
        step=1,
        group_size=1,
        seed=0,
        engines={"m": Scripted(answer)},
        tokenizers={"m": TOKENIZER},
        immediate=immediate,
    )
    for trajectory in asyncio.run(work):
        reading = Reading(dict(trajectory.row))
        reading.block(flow, 0)
        assert trajectory.failed is None
        assert [(turn.agent, turn.prompt, turn.text) for turn in trajectory.turns] == reading.turns
        assert [turn.index for turn in trajectory.turns] == list(range(len(reading.turns)))
        assert trajectory.result == reading.judged
        assert trajectory.reward == (reading.judged == "yes")

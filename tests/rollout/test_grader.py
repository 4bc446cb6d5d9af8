"""Mathematical equality, and that no comparison can hang."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runtime.rollout import grader
from runtime.rollout.rewards import math_equal

PAIRS = [json.loads(line) for line in Path(__file__).with_name("math_pairs.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("kind", sorted({pair["kind"] for pair in PAIRS}))
def test_verdicts_of_a_mathematician(kind: str):
    """`math_pairs.jsonl` says of each answer whether someone who knows mathematics would accept it for the gold one."""
    wrong = [
        pair
        for pair in PAIRS
        if pair["kind"] == kind and math_equal(pair["answer"], pair["gold"]) != float(pair["equal"])
    ]
    assert wrong == []


def test_there_are_verdicts_of_both_sorts():
    assert len(PAIRS) >= 400 and sum(pair["equal"] for pair in PAIRS) >= 150 <= sum(not p["equal"] for p in PAIRS)


def test_what_is_no_text():
    assert math_equal(4.0, 4) == math_equal(4, "4") == math_equal(0.5, r"\frac{1}{2}") == 1.0
    assert math_equal(None, "4") == math_equal("4", None) == math_equal("4", []) == 0.0


def test_a_comparison_that_takes_too_long_is_ended_and_the_next_one_answered():
    worker = grader.Grader(grader.MATH)
    try:
        assert worker.ask(["1+1", "2"], timeout=60)
        begin = time.perf_counter()
        assert not worker.ask(["9^{9^{9^{9}}}", "9^{9^{9^{8}}} + 1"], timeout=1.0)
        assert time.perf_counter() - begin < 10
        assert worker.ask(["2/4", "0.5"], timeout=60)
    finally:
        worker.close()


def test_a_worker_that_dies_is_replaced():
    worker = grader.Grader(grader.MATH)
    try:
        assert worker.ask(["1", "1.0"], timeout=60)
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        assert not worker.ask(["1", "1.0"], timeout=60)
        assert worker.ask(["1", "1.0"], timeout=60)
    finally:
        worker.close()

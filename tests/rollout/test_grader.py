"""Mathematical equality, and that no comparison can hang."""

from __future__ import annotations

import time

import pytest

from runtime.rollout import grader
from runtime.rollout.rewards import math_equal


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("0.5", r"\frac{1}{2}"),
        ("1/2", r"\frac12"),
        ("x + 1", "1 + x"),
        (r"\{2, 1\}", r"\{1, 2\}"),
        ("1000", "1,000"),
        ("x = 5", "5"),
        (r"\sqrt{18}", r"3\sqrt{2}"),
        ("$5$", "5"),
        (r"\boxed{7}", "7"),
        (r"10\text{ cm}", "10"),
        ("Paris", " Paris "),
        (4.0, 4),
    ],
)
def test_equal(answer: object, gold: object):
    assert math_equal(answer, gold) == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("2", "3"), ("", "0"), ("[0, 1)", "[0, 1]"), ("Paris", "London"), (r"\frac{", "1"), ("\n\n", "1"), ("x", "1")],
)
def test_not_equal(answer: str, gold: str):
    assert math_equal(answer, gold) == 0.0


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

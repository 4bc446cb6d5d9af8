"""Learning rates: warm-up and schedules over a run."""

from __future__ import annotations

import pytest

from drmas_dsl.graph.settings import Optimizer
from runtime.learning.optimizer import learning_rate


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ("cosine", [0.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 0.0]),
    ],
)
def test_schedules(schedule, expected):
    optimizer = Optimizer(lr=1.0, warmup=2, schedule=schedule)
    assert [learning_rate(optimizer, update, 6) for update in range(7)] == pytest.approx(expected, abs=1e-6)


def test_without_warm_up_the_first_update_has_the_full_rate():
    assert learning_rate(Optimizer(lr=0.1), 0, 10) == 0.1

"""What a preset of training is: how scores become advantages, and the values that the one loss takes.

Each algorithm is a function of its settings that returns an `Algorithm`; its parameters are those of its signature in the
language's table. No torch here: advantages are recomputed on machines that have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.learning.advantages import Floats, Normalization, Scored

Estimator = Callable[[Scored, Normalization, str], Floats]


@dataclass(frozen=True, slots=True)
class Overlong:
    """Soft punishment of length (DAPO): nothing up to `buffer` tokens below the limit, then linear up to `penalty`."""

    buffer: int
    penalty: float

    def punish(self, length: int, limit: int) -> float:
        """What is taken from the score of a response of `length` tokens where `limit` are allowed."""
        over = length - (limit - self.buffer)
        return self.penalty * min(max(over / self.buffer, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A preset.

    `estimate` makes advantages of scored turns. `clip_low` to `entropy` hold for every agent whose `loss` block does not
    say otherwise. `aggregate` replaces the policy's where given; `constant_length` then divides token sums by the
    longest allowed response. `resample` is how often groups without variance are replaced by other questions in a
    step; `overlong` shapes scores.
    """

    estimate: Estimator
    clip_low: float
    clip_high: float
    kl: float
    kl_estimator: str
    entropy: float
    aggregate: str | None = None
    constant_length: bool = False
    resample: int = 0
    overlong: Overlong | None = None

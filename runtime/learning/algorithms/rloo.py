"""RLOO (Ahmadian et al. 2024): scores against the mean of the others in the same statistics, no deviation."""

from __future__ import annotations

from runtime.learning.advantages import leave_one_out
from runtime.learning.algorithms.base import Algorithm


def rloo(
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    kl: float = 0.0,
    kl_estimator: str = "k3",
    entropy: float = 0.0,
) -> Algorithm:
    """`clip_high` is `clip` where it is None."""
    return Algorithm(leave_one_out, clip, clip if clip_high is None else clip_high, kl, kl_estimator, entropy)

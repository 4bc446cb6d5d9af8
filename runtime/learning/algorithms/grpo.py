"""GRPO (Shao et al. 2024): scores against the mean and deviation of their group, clipped surrogate.

With `normalize = agent` this is Dr. MAS, with `normalize = trajectory` the vanilla algorithm.
"""

from __future__ import annotations

from runtime.learning.advantages import group_relative
from runtime.learning.algorithms.base import Algorithm


def grpo(
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    kl: float = 0.0,
    kl_estimator: str = "k3",
    entropy: float = 0.0,
) -> Algorithm:
    """`clip_high` is `clip` where it is None."""
    return Algorithm(group_relative, clip, clip if clip_high is None else clip_high, kl, kl_estimator, entropy)

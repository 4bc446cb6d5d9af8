"""REINFORCE++ (Hu 2025) with a group baseline: the group's mean is taken off, and the step's deviation divides.

The deviation is that of all turns, trajectories or the agent's turns of the step, as `normalize` says. KL by k2.
"""

from __future__ import annotations

from runtime.learning.advantages import batch_relative
from runtime.learning.algorithms.base import Algorithm


def reinforce_pp(
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    kl: float = 0.0,
    kl_estimator: str = "k2",
    entropy: float = 0.0,
) -> Algorithm:
    """`clip_high` is `clip` where it is None."""
    return Algorithm(batch_relative, clip, clip if clip_high is None else clip_high, kl, kl_estimator, entropy)

"""Dr. GRPO (Liu et al. 2025): GRPO without its two biases, the division by the deviation and by the response's length.

Tokens are summed over a turn and divided by one constant, the longest response that the policy's agents may give.
"""

from __future__ import annotations

import dataclasses

from runtime.learning.advantages import Floats, Normalization, Scored, group_relative
from runtime.learning.algorithms.base import Algorithm


def dr_grpo(
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    kl: float = 0.0,
    kl_estimator: str = "k3",
    entropy: float = 0.0,
) -> Algorithm:
    """`clip_high` is `clip` where it is None."""
    return Algorithm(
        _centred,
        clip,
        clip if clip_high is None else clip_high,
        kl,
        kl_estimator,
        entropy,
        aggregate="sequence_mean_token_sum",
        constant_length=True,
    )


def _centred(turns: Scored, norm: Normalization, lone: str) -> Floats:
    return group_relative(turns, dataclasses.replace(norm, std="none"), lone)

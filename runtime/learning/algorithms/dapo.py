"""DAPO (Yu et al. 2025): clip-higher, token mean, dynamic sampling and a soft punishment of overlong responses.

Groups without variance are replaced by other questions up to `resample` times in a step. `overlong_buffer` is the
number of tokens below the agent's `max_tokens` from which a response loses up to `overlong_penalty`; 0 for none.
"""

from __future__ import annotations

from runtime.learning.advantages import group_relative
from runtime.learning.algorithms.base import Algorithm, Overlong


def dapo(
    *,
    clip: float = 0.2,
    clip_high: float = 0.28,
    kl: float = 0.0,
    kl_estimator: str = "k3",
    entropy: float = 0.0,
    resample: int = 3,
    overlong_buffer: int = 0,
    overlong_penalty: float = 1.0,
) -> Algorithm:
    """The paper's settings; `resample = 0` keeps every group."""
    return Algorithm(
        group_relative,
        clip,
        clip_high,
        kl,
        kl_estimator,
        entropy,
        aggregate="token_mean",
        resample=resample,
        overlong=Overlong(overlong_buffer, overlong_penalty) if overlong_buffer else None,
    )

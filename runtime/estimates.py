"""Estimates over evaluation samples: avg@k, pass@k and bootstrap intervals. Pure numpy.

Axes: q questions, n samples of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions with a 95 % interval by bootstrap over questions."""

    value: float
    low: float
    high: float


def avg_at_k(solved: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    """Mean success of the first k samples. solved: [q, n] -> [q]. Raises ValueError where n < k."""
    _enough(solved, k)
    return solved[:, :k].mean(axis=1)


def pass_at_k(solved: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    """1 - C(n - c, k) / C(n, k) with c of n solved: the unbiased estimate (Chen et al. 2021, arXiv 2107.03374, eq. 1) that at least one of k
    samples is solved. solved: [q, n] -> [q]. Raises ValueError where n < k."""
    _enough(solved, k)
    n = solved.shape[1]
    table = np.array([1.0 - math.comb(n - c, k) / math.comb(n, k) for c in range(n + 1)])
    return table[solved.sum(axis=1)]


def estimate(values: NDArray[np.float64], seed: int = 0, resamples: int = 2000) -> Estimate:
    """Mean of per-question values with its percentile bootstrap interval. values: [q]; NaN where q = 0."""
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan)
    draws = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975))
    return Estimate(float(values.mean()), float(low), float(high))


def _enough(solved: NDArray[np.bool_], k: int) -> None:
    if not 1 <= k <= solved.shape[1]:
        raise ValueError(f"k = {k} needs that many samples, there are {solved.shape[1]}")

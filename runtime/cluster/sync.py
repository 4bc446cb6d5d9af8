"""Weights on their way from a learner to an engine, and the canary that says whether they arrived.

Tensors travel as NumPy arrays, which Ray's object store hands out without a copy. Engine and learner then compute the same
short response's log-probabilities; where they differ, the engine serves something else than what is trained (a stale tied
head, old cache blocks), and no loss would show it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.cluster.failures import SyncError

if TYPE_CHECKING:
    import torch

Packed = Mapping[str, tuple[str, Any]]  # parameter -> (number format, NumPy array)

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}  # largest difference of a token's log-probability, in nats


def pack(weights: Mapping[str, torch.Tensor]) -> Packed:
    """Tensors (on the CPU) as arrays; NumPy has no bfloat16, so these travel as 16-bit integers."""
    import torch

    return {
        name: (str(tensor.dtype).removeprefix("torch."), _plain(tensor.contiguous(), torch.bfloat16, torch.int16))
        for name, tensor in weights.items()
    }


def unpack(packed: Packed) -> dict[str, torch.Tensor]:
    """The tensors again, over the same memory: to be read only."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        return {
            name: torch.from_numpy(array).view(getattr(torch, number_format))
            for name, (number_format, array) in packed.items()
        }


def canary_prompt(length: int, vocabulary: int, context: int) -> tuple[int, ...]:
    """Token ids spread over the vocabulary, the same at every sync."""
    return tuple((7919 * place + 13) % vocabulary for place in range(max(1, min(length, context // 2))))


def compare(policy: str, engine: Sequence[float], learner: Sequence[float], tolerance: float) -> float:
    """The largest distance of both sides' log-probabilities of the canary.

    Raises:
        SyncError: it is above `tolerance`, or not a number.
    """
    gaps = [abs(a - b) for a, b in zip(engine, learner, strict=True)]
    gap = math.nan if any(map(math.isnan, gaps)) else max(gaps)  # max() may pass over a NaN
    if not gap <= tolerance:
        raise SyncError(
            f"after a weight sync the engine of policy {policy!r} disagrees with its learner by {gap:.3g} nats on a token "
            f"(allowed: {tolerance:g})",
            "the engine serves stale or broken weights: please report it with the model's config.json, "
            "and run on the engine `hf` meanwhile",
        )
    return gap


def _plain(tensor: torch.Tensor, half: torch.dtype, integer: torch.dtype) -> Any:
    return (tensor.view(integer) if tensor.dtype == half else tensor).numpy()

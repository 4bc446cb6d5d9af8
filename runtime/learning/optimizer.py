"""AdamW and its learning rate for one policy, as the policy's settings say."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from drmas_dsl.graph import settings


def adamw(parameters: Iterable[torch.nn.Parameter], optimizer: settings.Optimizer) -> torch.optim.AdamW:
    """The optimiser; its learning rate is set before every update."""
    return torch.optim.AdamW(
        parameters, lr=optimizer.lr, betas=optimizer.betas, weight_decay=optimizer.weight_decay, foreach=False
    )


def learning_rate(optimizer: settings.Optimizer, update: int, updates: int) -> float:
    """The rate of an update, counted from 0, of a run of `updates`: linear from 0 over the warm-up, then as the schedule
    says, down to 0 where it is linear or a cosine."""
    if update < optimizer.warmup:
        return optimizer.lr * update / optimizer.warmup
    done = min((update - optimizer.warmup) / max(updates - optimizer.warmup, 1), 1.0)
    if optimizer.schedule == "linear":
        return optimizer.lr * (1 - done)
    if optimizer.schedule == "cosine":
        return optimizer.lr * 0.5 * (1 + math.cos(math.pi * done))
    return optimizer.lr

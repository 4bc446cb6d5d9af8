"""AdamW and its learning rate for one policy, as the policy's settings say; its state as a checkpoint holds it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from drmas_dsl.graph import settings
from runtime.learning import shards


def adamw(parameters: Iterable[torch.nn.Parameter], optimizer: settings.Optimizer) -> torch.optim.AdamW:
    """The optimiser; its learning rate is set before every update."""
    return torch.optim.AdamW(parameters, lr=optimizer.lr, betas=optimizer.betas, weight_decay=optimizer.weight_decay)


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


def move_state(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Move the optimiser's moments; AdamW wants its counts of steps on the CPU."""
    for values in optimizer.state.values():
        for name, value in values.items():
            if value.dim():
                values[name] = value.to(device)


def whole_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimiser's state on the CPU, put together where it is sharded: the same for any number of ranks."""
    state = optimizer.state_dict()
    return state | {
        "state": {
            index: {name: shards.whole(value).cpu() for name, value in values.items()}
            for index, values in state["state"].items()
        }
    }


def load_whole_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Go on from what `whole_state` gave, with the settings that the optimiser was made with."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in state["state"].items():
        like = parameters[index]
        for name, value in values.items():
            if value.shape == like.shape:
                values[name] = shards.part(value.to(like.device), like)
    optimizer.load_state_dict(state | {"param_groups": optimizer.state_dict()["param_groups"]})

"""One learner on several ranks: FSDP2 shards its weights, gradients and optimiser state where `torch.distributed` is
initialised with more than one of them; alone, everything here does nothing.

Ranks are given the same turns and take turns at the micro-batches. All of them must call the same methods in the same order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def meet(address: str, rank: int, ranks: int) -> None:
    """Join the other ranks of this process's learner at `address` (host:port, on the first one's machine)."""
    if address.startswith("127.") and sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # it listens wherever the host's name points otherwise
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, init_method=f"tcp://{address}", rank=rank, world_size=ranks)


def world() -> int:
    """How many ranks there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is."""
    return dist.get_rank() if world() > 1 else 0


def shard(net: Any, device: torch.device) -> None:
    """Shard a transformers model in place, layer by layer."""
    if world() == 1:
        return
    mesh = init_device_mesh(device.type, (world(),))
    for layer in layers(net):
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)


def layers(net: Any) -> list[Any]:
    """The layers of a transformers model: the modules that its class says not to split."""
    names = set(net._no_split_modules or ())
    return [module for module in net.modules() if type(module).__name__ in names]


@contextmanager
def gradients_kept(net: Any) -> Iterator[None]:
    """Inside, backward passes add to gradients that each rank keeps and no rank waits for another, so that they may make
    different numbers of passes through what `net` has gathered; the next backward pass after it shares them all."""
    _synchronise(net, False)
    try:
        yield
    finally:
        _synchronise(net, True)


def _synchronise(net: Any, on: bool) -> None:
    if isinstance(net, FSDPModule):
        net.set_requires_gradient_sync(on)
        net.set_reshard_after_backward(on)
        net.set_is_last_backward(on)


def reshard(net: Any) -> None:
    """Let go of what was gathered of a module. FSDP does so behind a backward pass; without one it would keep the outermost
    weights, and go on with them after an update."""
    if isinstance(net, FSDPModule):
        net.reshard()


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor put together, on every rank; any other as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part(tensor: Tensor, like: Tensor) -> Tensor:
    """The inverse of `whole`: this rank's part of a tensor, sharded as `like` is."""
    return distribute_tensor(tensor, like.device_mesh, like.placements) if isinstance(like, DTensor) else tensor


def gathered(value: Any) -> list[Any]:
    """What every rank gives, by rank."""
    values = [value]
    if world() > 1:
        values = [None] * world()
        dist.all_gather_object(values, value)
    return values

"""What a system asks of this installation, and whether it can be had: engines, packages, sharing, GPUs.

Asked before anything heavy starts, so that a missing package or weights that are not there cost a second and not a cold start.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Model, System
from runtime.models import is_remote, prepare

ENGINES = {
    "hf": ("torch", "transformers"),
    "openai": ("aiohttp",),
    "vllm": ("vllm",),
}  # and the packages that they need
_NVIDIA = Path("/proc/driver/nvidia/gpus")


def require_supported(system: System) -> None:
    """Refuse what cannot run here, and bring the weights here that have to be downloaded or converted (once).

    GPUs are counted only where no other cluster (RAY_ADDRESS) has them.

    Raises:
        UserError: with what is missing and what to use in its place.
    """
    if not all(map(is_remote, system.models.values())):
        _require_packages(("ray", "torch", "transformers"), "what runs models", "drmasc[train]")
    for model in system.models.values():
        _require_engine(model)
    _require_no_overlap(system)
    for pool in system.pools.values():
        if pool.memory is not None and not pool.gpus:
            raise UserError(
                f"pool {pool.name!r} has no GPUs, whose `memory` could be checked",
                "set `gpus`, or leave `memory` out",
            )
    if not os.environ.get("RAY_ADDRESS"):
        require_gpus(system, gpus_here())
        _require_gpu_to_offload(system, gpus_here())
    for model in system.models.values():
        prepare(model, system.base)


def _require_no_overlap(system: System) -> None:
    """Engines that sleep while the learners update cannot roll out meanwhile."""
    for model in system.models.values():
        if model.engine.args.get("sleep", False) and system.train.staleness:
            raise UserError(
                f"model {model.name!r}: with `engine.sleep` its engines sleep while the learners update, when "
                "`train.staleness = 1` has them roll out",
                "leave one of the two out",
            )


def require_gpus(system: System, there: int) -> None:
    """Refuse pools that ask for more GPUs than there are.

    Raises:
        UserError: naming the pool and both numbers.
    """
    wanted = sum(pool.gpus for pool in system.pools.values())
    if wanted > there:
        pools = ", ".join(f"{pool.name} ({pool.gpus})" for pool in system.pools.values() if pool.gpus)
        raise UserError(
            f"the pools ask for {wanted} GPUs, and there are {there}: {pools}",
            "set `gpus = 0` to run on the CPU, join a cluster that has them with RAY_ADDRESS, or add machines to it",
        )


def _require_gpu_to_offload(system: System, there: int) -> None:
    for model in system.models.values():
        if model.learner.offload and not there:
            raise UserError(
                f"model {model.name!r}: `learner.offload` frees a GPU's memory between updates, and there is no GPU here",
                "leave it out: on a CPU everything is in the CPU's memory",
            )


def gpus_here() -> int:
    """NVIDIA GPUs of this machine that this process may use. CUDA is not asked: that would take seconds."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() not in ("", "-1")])
    return len(list(_NVIDIA.iterdir())) if _NVIDIA.is_dir() else 0


def _require_engine(model: Model) -> None:
    engine = model.engine.function
    if engine not in ENGINES:
        raise UserError(
            f"model {model.name!r}: the engine {engine!r} is not available in this version",
            f"use one of {', '.join(sorted(ENGINES))}: `--set {model.name}.engine=hf`",
        )
    extra = "drmasc[vllm]" if engine == "vllm" else "drmasc[train]"
    _require_packages(ENGINES[engine], f"the engine {engine!r} of model {model.name!r}", extra)


def _require_packages(names: tuple[str, ...], user: str, extra: str) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"{user} needs {' and '.join(missing)}, not installed here", f"pip install '{extra}'")

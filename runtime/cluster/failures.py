"""Errors on their way from Ray's workers to the user: as themselves, or, where a worker is gone, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from drmas_dsl.errors import UserError
from runtime.engines.protocol import EngineBroken

T = TypeVar("T")


class SyncError(UserError):
    """After a weight sync the engine does not compute what the learner computes."""


class WorkerLost(UserError):
    """A process of the cluster is gone."""


class EngineLost(WorkerLost):
    """An engine died again and again; nothing that was learned is lost with it."""


class TooSlow(UserError):
    """A process of the cluster has not answered in time."""


def unwrap(error: BaseException) -> BaseException:
    """What a worker raised, in place of Ray's wrapper around it; a `WorkerLost` where it died; else the error itself."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError) and isinstance(error.cause, EngineBroken):
        return WorkerLost(
            f"an engine broke: {error.cause}", "if it is out of memory, lower `max_batch` or `gpu_memory`"
        )
    if isinstance(error, exceptions.RayTaskError):
        return error.cause if isinstance(error.cause, BaseException) else error
    if isinstance(error, exceptions.RayActorError | exceptions.WorkerCrashedError | exceptions.NodeDiedError):
        return WorkerLost(
            f"a worker process ended unexpectedly: {_reason(error)}",
            "the usual cause is too little memory: take a smaller model or batch, or free some",
        )
    if isinstance(error, exceptions.OutOfMemoryError):
        return WorkerLost(
            "Ray ended a worker because the machine ran out of memory", "take a smaller model or batch, or free some"
        )
    return error


async def received(awaitable: Awaitable[T]) -> T:
    """The value of a Ray reference; a worker's exception is raised as itself."""
    try:
        return await awaitable
    except Exception as error:
        found = unwrap(error)
        if found is error:
            raise
        raise found from None


async def in_time(work: Awaitable[T], seconds: float, what: str) -> T:
    """What `work` gives. Raises TooSlow with `what` in its message where it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise TooSlow(
            f"{what} within {seconds:g} seconds", "see with `ray status` whether the cluster's CPUs and GPUs are taken"
        ) from error


def _reason(error: BaseException) -> str:
    """The line of Ray's message that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if "exit detail" in line or "cause" in line.lower():
            return line
    return lines[0] if lines else type(error).__name__

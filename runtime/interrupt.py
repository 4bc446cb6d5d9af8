"""Ctrl-C as an event: the first asks a run to stop at the next safe point, the second ends it at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """The user asked to stop while something was awaited that can be left undone."""


@asynccontextmanager
async def interruptible() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT or SIGTERM sets; a second signal raises KeyboardInterrupt where the program stands."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask() -> None:
        stop.set()
        for number in before:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)

    for number in before:
        loop.add_signal_handler(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
    """The result of `work`, or Interrupted, with `work` cancelled, as soon as `stop` is set."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Interrupted
    finally:
        for pending in (task, stopped):
            pending.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)

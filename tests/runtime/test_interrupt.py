"""Ctrl-C stops what can be left undone, and nothing else."""

import asyncio
import os
import signal

import pytest

from runtime.interrupt import Interrupted, interruptible, unless


def test_work_that_ends_is_not_touched():
    async def main():
        async with interruptible() as stop:
            return await unless(stop, asyncio.sleep(0.01, "done")), stop.is_set()

    assert asyncio.run(main()) == ("done", False)


def test_a_signal_cancels_the_work_that_is_awaited():
    cancelled = []

    async def work():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main():
        async with interruptible() as stop:
            asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
            with pytest.raises(Interrupted):
                await unless(stop, work())
            return stop.is_set()

    assert asyncio.run(main())
    assert cancelled


def test_a_second_signal_ends_at_once():
    async def main():
        async with interruptible() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            await stop.wait()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


def test_errors_of_the_work_come_through_and_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)

    async def fail():
        raise ValueError("as itself")

    async def main():
        async with interruptible() as stop:
            with pytest.raises(ValueError, match="as itself"):
                await unless(stop, fail())

    asyncio.run(main())
    assert signal.getsignal(signal.SIGTERM) is before

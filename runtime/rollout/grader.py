"""Mathematical equality with a hard time limit: a few worker processes, killed and replaced where one takes too long.

The limits of `math-verify` itself are alarm signals, which work in a main thread only and not inside of C code. Safe to
call from any thread.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import select
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from drmas_dsl.errors import UserError

TIMEOUT = 5.0  # seconds for one comparison
START_TIMEOUT = 120.0  # seconds for importing sympy, on a busy machine
WORKERS = min(4, os.cpu_count() or 1)
_WORKER = Path(__file__).with_name("math_worker.py")


@lru_cache(maxsize=65536)
def mathematically_equal(answer: str, gold: str) -> bool:
    """Whether `answer` is mathematically equal to `gold`; one that takes longer than `TIMEOUT` is not.

    Raises:
        UserError: `math-verify` is not installed.
    """
    grader = _graders.get()
    try:
        return grader.ask(answer, gold)
    finally:
        _graders.put(grader)


class Grader:
    """One worker process, started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, answer: str, gold: str, timeout: float = TIMEOUT) -> bool:
        """Ask the worker; where no answer comes in time, end it and say no."""
        process = self._process = self._process or self._start()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps([answer, gold]).encode() + b"\n")
            process.stdin.flush()
            reply = _line(process, timeout)
        except BrokenPipeError:
            reply = b""
        if not reply:
            self.close()
        return reply == b"true\n"

    def close(self) -> None:
        """End the worker."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        if find_spec("math_verify") is None:
            raise UserError("math_equal needs the package math-verify", "install it with `pip install math-verify`")
        # -P: the worker's folder holds modules of the runtime, which must not shadow those that sympy imports.
        process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a pipe that nobody reads would block the worker once it is full
            start_new_session=True,  # Ctrl-C is for the run, which may still want its rewards
        )
        if _line(process, START_TIMEOUT) != b"ready\n":
            process.kill()
            process.communicate()
            raise UserError(f"math_equal's process did not start within {START_TIMEOUT:g} s")
        return process


def _line(process: subprocess.Popen[bytes], timeout: float) -> bytes:
    """The worker's next line, or nothing where it does not come in time. Lines are short and written whole."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], timeout)
    return process.stdout.readline() if ready else b""


_graders: queue.LifoQueue[Grader] = queue.LifoQueue()  # last in, first out: as few processes as will do
for _ in range(WORKERS):
    _graders.put(Grader())


@atexit.register
def _close() -> None:
    while not _graders.empty():
        _graders.get().close()

"""Grading with a hard time limit: a few worker processes for each kind of grader, killed and replaced where one takes too
long.

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
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

from drmas_dsl.errors import UserError

TIMEOUT = 5.0  # seconds for one answer
START_TIMEOUT = 120.0  # seconds for imports and data, on a busy machine
WORKERS = min(4, os.cpu_count() or 1)
MATH = "runtime.rollout.math_worker"
GYM = "runtime.rollout.gym_worker"


@lru_cache(maxsize=65536)
def mathematically_equal(answer: str, gold: str) -> bool:
    """Whether `answer` is mathematically equal to `gold`; one that takes longer than `TIMEOUT` is not.

    Raises:
        UserError: `math-verify` is not installed.
    """
    if find_spec("math_verify") is None:
        raise UserError("math_equal needs the package math-verify", "install it with `pip install math-verify`")
    return graders(MATH).ask([answer, gold]) is True


def verified(answer: str, entry: Mapping[str, Any]) -> float:
    """What Reasoning Gym's verifier gives for an answer to the question of `entry` (see `datasets.gym`); 0 where it takes
    longer than `TIMEOUT`."""
    task = {name: value for name, value in entry.items() if name != "index"}
    return float(graders(GYM).ask([answer, entry], need=task) or 0.0)


class Grader:
    """One worker process of a module, started when it is first asked. It answers a line of JSON with one."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: list[Any] = []

    def ask(self, request: Any, timeout: float = TIMEOUT, need: Any = None) -> Any:
        """The worker's reply; None where none comes in time, and then the worker is ended. What it has to load first
        goes before, as `need`, and may take as long as its start."""
        if need is not None and need not in self._ready:
            self._exchange(need, START_TIMEOUT)
            if self._process:
                self._ready.append(need)
        return self._exchange(request, timeout)

    def close(self) -> None:
        """End the worker."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None
        self._ready = []

    def _exchange(self, request: Any, timeout: float) -> Any:
        process = self._process = self._process or self._start()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            reply = _line(process, timeout)
        except BrokenPipeError:
            reply = b""
        if not reply:
            self.close()
            return None
        return json.loads(reply)

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a pipe that nobody reads would block the worker once it is full
            start_new_session=True,  # Ctrl-C is for the run, which may still want its rewards
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # whatever found this module
        )
        if _line(process, START_TIMEOUT) != b'"ready"\n':
            process.kill()
            process.communicate()
            raise UserError(f"the process {self._module} did not start within {START_TIMEOUT:g} s")
        return process


class Graders:
    """Several workers of one kind: as many as answers are asked for at once, up to `WORKERS`."""

    def __init__(self, module: str) -> None:
        self._free: queue.LifoQueue[Grader] = queue.LifoQueue()  # last in, first out: as few processes as will do
        for _ in range(WORKERS):
            self._free.put(Grader(module))
        atexit.register(self._close)

    def ask(self, request: Any, need: Any = None) -> Any:
        """As `Grader.ask`, by one that is free."""
        grader = self._free.get()
        try:
            return grader.ask(request, need=need)
        finally:
            self._free.put(grader)

    def _close(self) -> None:
        while not self._free.empty():
            self._free.get().close()


@cache
def graders(module: str) -> Graders:
    """The workers of a module."""
    return Graders(module)


def _line(process: subprocess.Popen[bytes], timeout: float) -> bytes:
    """The worker's next line, or nothing where it does not come in time. Lines are short and written whole."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], timeout)
    return process.stdout.readline() if ready else b""

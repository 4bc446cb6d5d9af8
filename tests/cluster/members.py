"""Members of a worker that fail in every way that the tests want to see."""

import os
import signal
import time

from drmas_dsl.errors import UserError
from runtime.engines.protocol import EngineBroken


class Member:
    """A member without a model."""

    concurrency = 1
    parameters = 0

    def __init__(self, broken=False):
        if broken:
            raise UserError("the weights are not there", "put them there")

    def echo(self, value):
        return value

    def fail(self):
        raise KeyError("Nobody")

    def give_up(self):
        raise EngineBroken("OutOfMemoryError: CUDA out of memory")

    def refuse(self):
        raise UserError("no such agent", "name another")

    def work(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

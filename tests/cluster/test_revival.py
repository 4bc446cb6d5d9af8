"""An engine that comes back and cannot be brought to where it was."""

import asyncio
import os
import signal

import pytest

from runtime.cluster import engines
from runtime.cluster.cluster import cluster
from runtime.cluster.engines import RemoteEngine
from runtime.cluster.failures import EngineLost
from runtime.cluster.handles import actors
from tests.cluster.systems import asked_of, pid_of, system

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SYSTEM = system(("Solver",), frozen=("Solver",))


def test_an_engine_that_cannot_have_its_weights_again_ends_the_run(monkeypatch):
    async def refuse(*_):
        raise ValueError("these are of another size")

    async def run():
        with cluster(SYSTEM) as found:
            async with actors(SYSTEM, found) as crew:
                engine = crew.engines["small"]
                assert isinstance(engine, RemoteEngine)
                monkeypatch.setattr(engine, "_restore", refuse)
                os.kill(await pid_of(engine.replicas["Solver"][0].handle.station.worker), signal.SIGKILL)
                await engine.generate(asked_of("Solver"))

    monkeypatch.setattr(engines, "RESTARTS", 1)
    with pytest.raises(EngineLost, match="of another size"):
        asyncio.run(run())

"""The workers of a module's `SYSTEM` on a real Ray: they cost seconds, so that its tests share them."""

import asyncio

import pytest

from runtime.cluster.cluster import cluster
from runtime.cluster.handles import actors


@pytest.fixture(scope="module")
def runner():
    """The event loop that the crew lives in."""
    with asyncio.Runner() as loop:
        yield loop


@pytest.fixture(scope="module")
def crew(runner, request):
    """Its engines and learners."""
    system = request.module.SYSTEM
    with cluster(system) as found:
        context = actors(system, found)
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))

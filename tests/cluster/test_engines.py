"""Two vLLM engines serve one policy: both are asked, both get the weights, and one stands in for the other."""

import asyncio
import os
import signal
from dataclasses import replace
from importlib.util import find_spec

import pytest

from drmas_dsl.graph.settings import Call
from runtime.cluster.cluster import cluster
from runtime.cluster.engines import RemoteEngine
from runtime.cluster.handles import actors
from runtime.engines.protocol import Completion
from tests.cluster.systems import asked_of, pid_of, system, trained_on
from tests.engines.tiny import model

pytestmark = [
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
    pytest.mark.ray,
    pytest.mark.slow,
]
TWO = Call("vllm", {"engines": 2, "max_batch": 16, "timeout": 5.0})
SYSTEM = system(("Solver",), models={"small": replace(model(hidden=64, heads=2, context=512), engine=TWO)})


def test_two_engines_of_a_policy():
    async def run():
        with cluster(SYSTEM) as found:
            async with actors(SYSTEM, found) as crew:
                engine = crew.engines["small"]
                assert isinstance(engine, RemoteEngine)
                first, second = engine.replicas["Solver"]

                async def answers():
                    """Each request on its own, as the rollout asks."""
                    calls = [asyncio.create_task(engine.generate([one])) for one in asked_of("Solver")]
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    busy.append((first.busy, second.busy))
                    return [given for (given,) in await asyncio.gather(*calls)]

                busy: list[tuple[int, int]] = []
                start = await answers()
                assert busy == [(3, 3)]

                await crew.learners["Solver"].update(trained_on(asked_of("Solver"), start))
                assert await crew.sync("Solver") < 1e-4
                for replica in (first, second):  # both have the new weights
                    (given,) = await replica.handle.ask("generate", asked_of("Solver", 1))
                    assert given.weights_version == 1

                pid = await pid_of(first.handle.station.worker)
                os.kill(pid, signal.SIGSTOP)  # it hangs: after 5 seconds the other one is asked
                late = await answers()
                assert all(isinstance(given, Completion) for given in late)
                assert crew.lost() == {"retried": 3, "restarts": 0}

                task = asyncio.create_task(answers())
                await asyncio.sleep(0.3)
                os.kill(pid, signal.SIGKILL)  # it dies: the other one is asked at once
                assert all(isinstance(given, Completion) for given in await task)
                assert crew.lost() == {"retried": 3, "restarts": 1}
                assert first.revival is not None

                assert await crew.sync("Solver") < 1e-4  # which waits for it
                (given,) = await first.handle.ask("generate", asked_of("Solver", 1))
                assert given.weights_version == 1

    asyncio.run(run())

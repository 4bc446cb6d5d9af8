"""Engines that die or hang in the middle of their work, and learners that do: real workers, which get real signals."""

import asyncio
import os
import signal
import time

import pytest

from runtime.cluster import engines
from runtime.cluster.failures import EngineLost, WorkerLost
from runtime.engines.protocol import Completion
from tests.cluster.systems import asked_of, pid_of, system, trained_on
from tests.engines.tiny import model

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SECONDS = 3.0  # of the engine's time-out; a worker starts anew without it
SYSTEM = system(("Solver", "Idle"), models={"small": model(engine_args={"timeout": SECONDS})}, frozen=("Idle",), cpus=4)


async def hit(replica, number, work):
    """What `work` gives while the worker of its member, which has it but does nothing any more, gets a signal."""
    pid = await pid_of(replica.handle.station.worker)
    os.kill(pid, signal.SIGSTOP)
    task = asyncio.create_task(work)
    await asyncio.sleep(0.3)
    os.kill(pid, number)
    return await task


def killed(crew, work):
    return hit(crew.engines["small"].replicas["Solver"][0], signal.SIGKILL, work)


async def learn(crew):
    asked = asked_of("Solver")
    await crew.learners["Solver"].update(trained_on(asked, await crew.engines["small"].generate(asked)))


def test_an_engine_that_dies_comes_back_and_answers_as_it_would_have(crew, runner):
    async def run():
        engine, asked = crew.engines["small"], [*asked_of("Solver"), *asked_of("Idle")]
        start = await engine.generate(asked)
        await learn(crew)
        await crew.sync("Solver")
        before = await engine.generate(asked)
        begin = time.monotonic()
        after = await killed(crew, engine.generate(asked))
        print(f"restarted within {time.monotonic() - begin:.1f} s")
        return start, before, after

    start, before, after = runner.run(run())
    assert before == after
    assert before[:6] != start[:6]
    assert before[6:] == start[6:]
    assert [completion.weights_version for completion in after] == [1] * 6 + [0] * 6
    assert crew.lost() == {"retried": 12, "restarts": 1}


def test_an_engine_that_dies_idle_is_there_for_the_next_sync(crew, runner):
    async def run():
        engine = crew.engines["small"]
        before = await engine.generate(asked_of("Solver"))
        await learn(crew)
        os.kill(await pid_of(engine.replicas["Solver"][0].handle.station.worker), signal.SIGKILL)
        return before, await crew.sync("Solver"), await engine.generate(asked_of("Solver"))

    before, gap, answers = runner.run(run())
    assert gap < 1e-4
    assert {answer.weights_version for answer in answers} == {before[0].weights_version + 1}


def test_a_policy_without_a_learner_has_its_checkpoint_again(crew, runner, tmp_path):
    async def run():
        engine = crew.engines["small"]
        await learn(crew)
        await crew.learners["Solver"].save(tmp_path)
        start = await engine.generate(asked_of("Idle"))
        await crew.load(SYSTEM.policies["Idle"], tmp_path, 5)
        before = await engine.generate(asked_of("Idle"))
        return start, before, await killed(crew, engine.generate(asked_of("Idle")))

    start, before, after = runner.run(run())
    assert before == after != start
    assert after[0].weights_version == 5


def test_a_call_that_takes_too_long_fails_alone(crew, runner):
    async def run():
        engine = crew.engines["small"]
        pid = await pid_of(engine.replicas["Solver"][0].handle.station.worker)
        os.kill(pid, signal.SIGSTOP)
        late = await engine.generate(asked_of("Solver"))
        os.kill(pid, signal.SIGCONT)
        return late, await engine.generate(asked_of("Solver"))

    late, answers = runner.run(run())
    assert {str(answer) for answer in late} == {"no answer within 3 s (`engine.timeout`)"}
    assert all(isinstance(answer, Completion) for answer in answers)


def test_an_engine_that_dies_again_and_again_ends_the_run(crew, runner, monkeypatch):
    monkeypatch.setattr(engines, "RESTARTS", 0)
    with pytest.raises(EngineLost, match="ended unexpectedly"):
        runner.run(killed(crew, crew.engines["small"].generate(asked_of("Solver"))))
    with pytest.raises(EngineLost, match="ended unexpectedly"):
        runner.run(crew.engines["small"].generate(asked_of("Solver")))


def test_a_learner_that_dies_says_so(crew, runner):
    async def run():
        learner = crew.learners["Solver"]
        os.kill(await pid_of(learner.ranks[0].station.worker), signal.SIGKILL)
        await learner.logprobs([])

    with pytest.raises(WorkerLost, match="ended unexpectedly"):
        runner.run(run())

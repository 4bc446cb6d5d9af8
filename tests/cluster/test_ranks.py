"""A learner of two ranks in two workers is one learner: the same figures, weights and checkpoints, and one error."""

import asyncio
import os
import signal
from functools import partial

import pytest
import torch

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Learner as Settings
from runtime.cluster.failures import WorkerLost
from runtime.cluster.learners import together
from runtime.learning.learner import Learner
from tests.cluster.systems import asked_of, pid_of, system, trained_on
from tests.engines.tiny import model

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SYSTEM = system(("Solver",), models={"small": model(learner=Settings(ranks=2))})


def alone():
    torch.set_num_threads(1)
    return Learner(SYSTEM.policies["Solver"], SYSTEM.models["small"], SYSTEM.agents, SYSTEM.train, "", 0)


def test_two_ranks_do_what_one_does(crew, runner, tmp_path):
    learner, engine = crew.learners["Solver"], crew.engines["small"]
    asked = asked_of("Solver")
    turns = trained_on(asked, runner.run(engine.generate(asked)))
    metrics = runner.run(learner.update(turns))
    gap = runner.run(crew.sync("Solver"))
    one = alone()
    expected = one.update(turns)
    assert gap < 1e-4
    assert metrics.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)
    assert metrics.loss == pytest.approx(expected.loss, abs=1e-6)
    assert {answer.weights_version for answer in runner.run(engine.generate(asked))} == {1}

    runner.run(learner.save(tmp_path / "two"))
    one.save(tmp_path / "one")
    other = alone()
    other.load(tmp_path / "two")  # one rank goes on where two stopped
    theirs, mine = other.weights(), one.weights()
    assert all(torch.allclose(theirs[name], mine[name], atol=1e-5) for name in mine)
    runner.run(learner.load(tmp_path / "one"))  # and two where one did
    again, further = runner.run(learner.update(turns)), one.update(turns)
    assert again.grad_norm == pytest.approx(further.grad_norm, rel=1e-3)
    assert again.weights_version == further.weights_version == 2


def test_calls_from_several_sides_come_to_all_ranks_in_one_order(crew, runner):
    learner = crew.learners["Solver"]
    asked = asked_of("Solver")
    turns = trained_on(asked, runner.run(crew.engines["small"].generate(asked)))

    async def run():
        calls = [learner.update(turns), learner.weights(), learner.logprobs(turns), crew.sync("Solver")]
        async with asyncio.timeout(60):
            return await asyncio.gather(*calls)

    *_, gap = runner.run(run())
    assert gap < 1e-4


def test_what_one_rank_meets_is_raised_although_the_other_waits():
    async def fails():
        await asyncio.sleep(0.01)
        raise UserError("the disk is full", "make room")

    async def breaks():
        raise RuntimeError("connection closed by peer")

    with pytest.raises(UserError, match="the disk is full"):
        asyncio.run(together([breaks(), fails()]))


def test_a_rank_that_dies_ends_the_wait_of_the_other(crew, runner):
    learner = crew.learners["Solver"]
    asked = asked_of("Solver")
    turns = trained_on(asked, runner.run(crew.engines["small"].generate(asked)))

    async def run():
        pid = await pid_of(learner.ranks[1].station.worker)
        os.kill(pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(1.0, partial(os.kill, pid, signal.SIGKILL))
        async with asyncio.timeout(60):
            await learner.update(turns)

    with pytest.raises(WorkerLost, match="ended unexpectedly"):
        runner.run(run())

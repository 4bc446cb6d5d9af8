"""What goes wrong in a worker arrives as itself."""

import asyncio

import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Learner, Model
from runtime.cluster.actors import Worker
from runtime.cluster.cluster import cluster
from runtime.cluster.failures import WorkerLost, received
from runtime.cluster.handles import actors
from tests.cluster.members import Member
from tests.cluster.systems import system

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def worker():
    with cluster(system()):
        import ray

        yield ray.remote(Worker).options(num_cpus=0).remote()


def ask(worker, method, *args):
    async def asked():
        await received(worker.open.remote("member", Member, 1))
        return await received(worker.call.remote("member", method, *args))

    return asyncio.run(asked())


def test_errors_arrive_as_themselves_and_work_goes_on(worker):
    async def broken():
        await received(worker.open.remote("broken", Member, 1, True))

    with pytest.raises(UserError, match="the weights are not there") as caught:
        asyncio.run(broken())
    assert caught.value.help == "put them there"
    with pytest.raises(UserError, match="no such agent"):
        ask(worker, "refuse")
    with pytest.raises(KeyError, match="Nobody"):
        ask(worker, "fail")
    assert ask(worker, "echo", 3) == 3


def test_an_engine_that_is_broken_is_lost_as_if_it_had_died(worker):
    with pytest.raises(WorkerLost, match="an engine broke: OutOfMemoryError") as caught:
        ask(worker, "give_up")
    assert "max_batch" in caught.value.help


def test_a_worker_that_dies_is_reported_in_words(worker):
    with pytest.raises(WorkerLost, match="a worker process ended unexpectedly") as caught:
        ask(worker, "die")
    assert "\n" not in caught.value.message
    assert "memory" in caught.value.help


def test_what_one_rank_of_a_learner_meets_ends_the_start_of_all(worker):
    missing = Model("small", weights={"path": "nowhere"}, learner=Learner(ranks=2))
    broken = system(("Solver",), models={"small": missing})

    async def start():
        with cluster(broken) as found:
            async with asyncio.timeout(60), actors(broken, found):
                pass

    with pytest.raises(UserError, match="nowhere"):
        asyncio.run(start())

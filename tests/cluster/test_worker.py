"""What a worker gives to its members."""

import asyncio

import pytest
import torch

from runtime.cluster.actors import Worker


class Counting:
    """A member that says how many threads it finds, on its way up and at work."""

    concurrency = 1

    def __init__(self, parameters):
        self.parameters, self.built = parameters, torch.get_num_threads()

    def threads(self):
        return self.built, torch.get_num_threads()


@pytest.fixture(autouse=True)
def one_thread():
    """What Ray leaves to a process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("parameters", "at_work"), [(135_000_000, 2), (100_000, 1)])
def test_members_have_the_threads_of_their_seat(parameters, at_work):
    async def found():
        worker = Worker()
        await worker.open("counting", Counting, 2, parameters)
        return await worker.call("counting", "threads")

    assert asyncio.run(found()) == (2, at_work)

"""Pools on a cluster of two small machines: placed where they fit, refused in words where they do not."""

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Pool
from runtime.cluster import stations
from runtime.cluster.cluster import _environment, _lean, _loopback, cluster
from runtime.cluster.failures import received
from runtime.cluster.handles import actors
from tests.cluster.systems import asked_of, system, trained_on
from tests.engines.tiny import model

pytestmark = [pytest.mark.ray, pytest.mark.slow]
MODELS = {"small": model("small"), "large": model("large", seed=1)}
POOLS = (Pool("one", cpus=1, models=("small",)), Pool("two", cpus=1, models=("large",)))


def two_pools(pools=POOLS):
    """An agent on either model, each model in a pool of its own."""
    everything = system(("A", "B"), models=MODELS, pools=pools)
    return replace(everything, policies={**everything.policies, "B": replace(everything.policies["B"], model="large")})


@pytest.fixture(scope="module")
def address():
    """Two nodes of a CPU each, as small as ours are."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, _environment(), _lean(), _loopback():
        os.environ["RAY_TMPDIR"] = folder  # pytest's are too long for sockets
        Path(folder, "ray").mkdir()
        nodes = Cluster()
        try:
            nodes.add_node(**small, include_dashboard=False)
            nodes.add_node(**small)
            yield nodes.address
        finally:
            nodes.shutdown()


async def node_of(handle):
    import ray

    return await received(handle.station.worker.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()))


def test_pools_on_two_machines_train_a_step(address):
    import ray
    from ray.util import placement_group_table

    everything = two_pools()

    async def run():
        with cluster(everything, address) as found:
            assert (found.cpus, found.started) == (2, False)
            async with actors(everything, found) as crew:
                places = [await node_of(learner.ranks[0]) for learner in crew.learners.values()]
                gaps = []
                for policy, name in (("A", "small"), ("B", "large")):
                    asked = asked_of(policy)
                    drawn = await crew.engines[name].generate(asked)
                    await crew.learners[policy].update(trained_on(asked, drawn))
                    gaps.append(await crew.sync(policy))
            states = [group["state"] for group in placement_group_table().values()]
            return places, gaps, states, ray.cluster_resources()["CPU"]

    places, gaps, states, cpus = asyncio.run(run())
    assert len(set(places)) == 2
    assert max(gaps) < 1e-4
    assert states == ["REMOVED"] * 2
    assert cpus == 2


@pytest.mark.parametrize(
    ("pools", "says"),
    [
        ((replace(POOLS[0], cpus=2), POOLS[1]), r"ask for 3 CPUs, and the cluster has 2: one \(2\), two \(1\)"),
        ((replace(POOLS[0], gpus=2), POOLS[1]), r"ask for 2 GPUs, and there are 0: one \(2\)"),
    ],
)
def test_what_the_cluster_lacks_is_said_at_once(address, pools, says):
    async def run():
        with cluster(two_pools(pools), address) as found:
            async with asyncio.timeout(20), actors(two_pools(pools), found):
                pass

    with pytest.raises(UserError, match=says):
        asyncio.run(run())


def test_what_others_hold_is_waited_for_and_then_named(address, monkeypatch):
    import ray

    monkeypatch.setattr(stations, "PLACE_SECONDS", 2.0)

    async def run():
        with cluster(two_pools(), address) as found:
            from tests.cluster.members import Member

            other = ray.remote(Member).options(num_cpus=1).remote()
            await received(other.echo.remote(1))
            async with actors(two_pools(), found):
                pass

    with pytest.raises(
        UserError, match=r"pool 'two' could not be placed within 2 seconds: it asks for 1 CPU, .* 1 CPU"
    ):
        asyncio.run(run())

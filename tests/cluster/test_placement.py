"""Who shares a worker, and that everybody fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Pool
from runtime.cluster.cluster import Cluster
from runtime.cluster.placement import Member, seats
from tests.cluster.systems import system
from tests.engines.tiny import model


def found(cpus=2.0, gpus=0.0):
    return Cluster(cpus, gpus, started=True)


def test_three_learners_and_an_engine_on_two_cores():
    first, second = seats(system(("A", "B", "C")), found(), learners=True)
    assert first.members == (Member("small"), Member("small", "B"))
    assert second.members == (Member("small", "A"), Member("small", "C"))
    assert (first.cpus, first.threads) == (1.0, 1)


def test_without_learners_only_engines():
    (only,) = seats(system(("A", "B", "C")), found(16), learners=False)
    assert only.members == (Member("small"),)
    assert only.threads == 16


def test_frozen_policies_have_no_learner():
    members = [m for seat in seats(system(("A", "B"), frozen=("A",)), found(8), learners=True) for m in seat.members]
    assert members == [Member("small"), Member("small", "B")]


def test_gpu_pools_seat_everybody_alone():
    parts = seats(system(("A", "B", "C")), found(8, 2), learners=True)
    assert [len(seat.members) for seat in parts] == [1, 1, 1, 1]
    assert {seat.gpus for seat in parts} == {0.5}


def test_models_live_in_their_pools():
    models = {"small": model("small"), "large": model("large")}
    pools = [Pool("a", cpus=1, models=("large",)), Pool("b", cpus=3)]
    parts = seats(system(("A", "B"), models=models, pools=pools), found(4), learners=True)
    assert [seat.members for seat in parts if Member("large") in seat.members] == [(Member("large"),)]
    assert len(parts) == 4


def test_pools_larger_than_the_cluster():
    with pytest.raises(UserError, match="ask for 6 CPUs, and the cluster has 4"):
        seats(system(pools=[Pool("a", cpus=6)]), found(4), learners=True)


@given(
    agents=st.integers(1, 9),
    cpus=st.integers(1, 40),
    gpus=st.integers(0, 5),
    own=st.lists(st.integers(1, 5), max_size=3),
)
def test_everybody_sits_once_and_fits(agents, cpus, gpus, own):
    pools = [Pool(f"p{place}", cpus=size) for place, size in enumerate(own) if sum(own) <= cpus]
    everybody = system(tuple(f"A{i}" for i in range(agents)), pools=pools)
    parts = seats(everybody, found(float(cpus), float(gpus)), learners=True)
    members = [member for seat in parts for member in seat.members]
    assert len(members) == len(set(members)) == agents + 1
    assert round(sum(seat.cpus for seat in parts), 6) <= cpus
    assert round(sum(seat.gpus for seat in parts), 6) <= gpus
    assert all(seat.cpus > 0 and seat.threads >= 1 for seat in parts)

"""Who shares a worker, and that everybody fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Model, Pool
from runtime.cluster.cluster import Cluster
from runtime.cluster.placement import Member, seats
from tests.cluster.systems import system
from tests.engines.tiny import model


def found(cpus=2.0, gpus=0.0):
    return Cluster(cpus, gpus, started=True)


def test_three_learners_and_an_engine_on_two_cores():
    first, second = seats(system(("A", "B", "C")), found(), learners=True)
    assert first.members == (Member("small", serves=("A", "B", "C")), Member("small", learns="B"))
    assert second.members == (Member("small", learns="A"), Member("small", learns="C"))
    assert (first.cpus, first.threads) == (1.0, 1)


def test_without_learners_only_engines():
    (only,) = seats(system(("A", "B", "C")), found(16), learners=False)
    assert only.members == (Member("small", serves=("A", "B", "C")),)
    assert only.threads == 16


def test_frozen_policies_have_no_learner():
    members = [m for seat in seats(system(("A", "B"), frozen=("A",)), found(8), learners=True) for m in seat.members]
    assert members == [Member("small", serves=("A", "B")), Member("small", learns="B")]


def test_gpu_pools_seat_everybody_alone():
    parts = seats(system(("A", "B", "C")), found(8, 2), learners=True)
    assert [len(seat.members) for seat in parts] == [1, 1, 1, 1]
    assert {seat.gpus for seat in parts} == {0.5}


def test_vllm_has_an_engine_and_a_worker_for_each_policy():
    served = replace(model(), engine=Call("vllm"))
    parts = seats(system(("A", "B"), models={"small": served}), found(2), learners=True)
    assert [seat.members for seat in parts] == [
        (Member("small", serves=("A",)),),
        (Member("small", serves=("B",)),),
        (Member("small", learns="A"), Member("small", learns="B")),
    ]
    assert {seat.cpus for seat in parts} == {0.66}


def test_vllm_serves_all_adapters_of_a_model_from_one_engine():
    served = replace(model(), engine=Call("vllm"), sharing="adapter")
    first, second = seats(system(("A", "B"), models={"small": served}), found(2), learners=True)
    assert first.members == (Member("small", serves=("A", "B")),)
    assert second.members == (Member("small", learns="A"), Member("small", learns="B"))


def test_remote_and_unused_models_need_no_worker():
    far = Model("far", engine=Call("openai"))
    assert seats(system(("A",), models={"far": far}, frozen=("A",)), found(), learners=True) == []
    parts = seats(system(("A",), models={"small": model(), "unused": model("unused")}), found(), learners=False)
    assert [seat.members for seat in parts] == [(Member("small", serves=("A",)),)]


def test_models_live_in_their_pools():
    models = {"small": model("small"), "large": model("large")}
    everything = system(("A", "B"), models=models, pools=[Pool("a", cpus=1, models=("large",)), Pool("b", cpus=3)])
    moved = replace(everything.policies["B"], model="large")
    parts = seats(replace(everything, policies={**everything.policies, "B": moved}), found(4), learners=True)
    assert [seat.members for seat in parts] == [
        (Member("small", serves=("A",)),),
        (Member("small", learns="A"),),
        (Member("large", serves=("B",)), Member("large", learns="B")),
    ]
    assert [seat.threads for seat in parts] == [1, 1, 1]


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

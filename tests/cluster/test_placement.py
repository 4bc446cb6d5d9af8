"""Who shares a worker, and that everybody fits."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Learner, Model, Pool
from runtime.cluster.cluster import Cluster
from runtime.cluster.placement import Member, seats, too_large
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
    assert {seat.gpus for seat in seats(system(("A", "B")), found(8, 2), learners=True)} == {
        0.5
    }  # not 0.66: it fits once


def test_vllm_has_an_engine_and_a_worker_for_each_policy():
    served = replace(model(), engine=Call("vllm"))
    parts = seats(system(("A", "B"), models={"small": served}), found(2), learners=True)
    assert [seat.members for seat in parts] == [
        (Member("small", serves=("A",)),),
        (Member("small", serves=("B",)),),
        (Member("small", learns="A"), Member("small", learns="B")),
    ]
    assert {seat.cpus for seat in parts} == {0.5}


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
    with pytest.raises(UserError, match=r"ask for 6 CPUs, and the cluster has 4: a \(6\)"):
        seats(system(pools=[Pool("a", cpus=6)]), found(4), learners=True)


def test_pools_that_name_no_cpus_share_what_is_left():
    models = {"small": model("small"), "large": model("large")}
    everything = system(("A", "B"), models=models, pools=[Pool("a", cpus=1, models=("large",)), Pool("b")])
    moved = replace(everything.policies["B"], model="large")
    everything = replace(everything, policies={**everything.policies, "B": moved})
    parts = seats(everything, found(4), learners=True)
    assert [(seat.pool, seat.cpus) for seat in parts] == [("b", 1.0), ("b", 1.0), ("a", 1.0)]
    with pytest.raises(UserError, match=r"ask for 2 CPUs, and the cluster has 1: b \(at least 1\), a \(1\)"):
        seats(everything, found(1), learners=True)


def test_every_rank_of_a_learner_has_a_worker_and_a_gpu_of_its_own():
    shared = {"small": replace(model(), learner=Learner(ranks=2))}
    first, second, both = seats(system(("A",), models=shared), found(2), learners=True)
    assert first.members == (Member("small", learns="A", number=0, ranks=2),)
    assert second.members == (Member("small", learns="A", number=1, ranks=2),)
    assert both.members == (Member("small", serves=("A",)),)
    assert len({member.name for seat in (first, second, both) for member in seat.members}) == 3
    assert [seat.gpus for seat in seats(system(("A",), models=shared), found(4, 3), learners=True)] == [1.0, 1.0, 1.0]
    with pytest.raises(UserError, match=r"has 2 GPUs; `tensor_parallel` and `ranks` take 2, and 1 further"):
        seats(system(("A",), models=shared), found(4, 2), learners=True)


def test_several_engines_and_engines_over_several_gpus():
    served = {"small": replace(model(), engine=Call("vllm", {"engines": 2, "tensor_parallel": 2}))}
    parts = seats(system(("A",), models=served, pools=[Pool("main", gpus=5, memory=80.0)]), found(8, 8), learners=True)
    assert [seat.members[0].name for seat in parts] == ["engine of A", "learner of A", "engine of A, 1"]
    assert [seat.gpus for seat in parts] == [2.0, 1.0, 2.0]
    assert {(seat.pool, seat.memory) for seat in parts} == {("main", 80.0)}


def test_engines_and_learners_follow_in_turn_so_that_one_of_each_shares_a_gpu():
    served = {"small": replace(model(), engine=Call("vllm"))}
    parts = seats(system(("A", "B"), models=served), found(8, 2), learners=True)
    names = [seat.members[0].name for seat in parts]
    assert names == ["engine of A", "learner of A", "engine of B", "learner of B"]
    assert {seat.gpus for seat in parts} == {0.5}


def test_what_no_placement_can_satisfy():
    nodes = [{"CPU": 2.0, "GPU": 1.0}, {"CPU": 2.0, "GPU": 1.0}]
    assert not too_large([{"CPU": 1.0, "GPU": 0.5}] * 4, nodes)
    assert "asks for 2 GPU on one machine, and the largest has 1" in too_large([{"CPU": 1.0, "GPU": 2.0}], nodes)
    assert "asks for 5 CPU, and the cluster has 4" in too_large([{"CPU": 1.0}] * 5, nodes)


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
    assert not parts[0].gpus or len(parts) <= gpus * math.floor(1 / parts[0].gpus)  # so many fit on each
    assert round(sum(seat.gpus for seat in parts), 6) <= gpus
    assert all(seat.cpus > 0 and seat.threads >= 1 for seat in parts)

"""One vLLM engine for all adapters of a model, against the learners that train them. Skipped only where vLLM is not installed."""

import asyncio
import dataclasses
from importlib.util import find_spec

import pytest
import torch

from benchmarks.bench_equality import answered, compiled, gap, recorded, requests, started, synced
from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Lora
from runtime.learning.learner import Learner

pytestmark = [pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"), pytest.mark.slow]

SYSTEM = compiled("tiny(hidden = 64, heads = 2)", "adapter", lr=3e-2)  # its prompts reach into the prefix cache


@pytest.fixture(scope="module")
def start():
    """An engine, and how far it was from the model before its first sync."""
    torch.set_num_threads(1)
    engine, learners = started(SYSTEM)
    return engine, gap(answered(engine, list(learners)), learners)


@pytest.fixture
def engine(start):
    return start[0]


@pytest.fixture
def learners(engine):
    """Fresh ones, whose weights the engine has."""
    made = {name: learner(name) for name in SYSTEM.policies}
    for name, each in made.items():
        engine.load_weights(name, each.weights(), 0)
    return made


def learner(policy, **lora):
    model = SYSTEM.models["m"]
    settings = dataclasses.replace(SYSTEM.policies[policy], lora=dataclasses.replace(model.lora, **lora))
    return Learner(settings, model, SYSTEM.agents, SYSTEM.train, SYSTEM.base)


def test_before_any_sync_every_policy_is_the_model(start):
    assert start[1] < 1e-4


def test_adapters_are_the_learners_after_each_of_ten_syncs(engine, learners):
    """In one batch with each other and with a policy that is frozen; in new and in cached blocks."""
    for sync in synced(engine, learners, 10):
        assert sync.gap < 1e-4
        assert sync.moved > 1e-2
    assert {name: turns[0].weights_version for name, turns in answered(engine, "ABC").items()} == {
        "A": 10,
        "B": 0,
        "C": 10,
    }


def test_only_the_adapter_travels(learners):
    weights = learners["A"].weights()
    assert {name.rpartition(".lora_")[2] for name in weights} == {"A.weight", "B.weight"}
    assert sum(map(torch.numel, weights.values())) < 0.3 * sum(
        p.numel() for p in learners["A"].trained.net.parameters()
    )


@pytest.mark.parametrize(
    "lora",
    [{"targets": ("q_proj", "down_proj")}, {"targets": ("self_attn.v_proj",)}, {"rank": 3, "alpha": 7.0}],
    ids=str,
)
def test_chosen_targets_and_odd_scales(engine, learners, lora):
    """A part of what vLLM packs into one module, and a scale that is no power of two."""
    mine = {**learners, "A": learner("A", **lora)}
    (sync,) = synced(engine, mine, 1)
    assert sync.gap < 1e-4
    assert sync.moved > 1e-2


def test_a_module_that_vllm_does_not_adapt_is_an_error(engine, learners):
    factors = {
        "base_model.model.model.norm.lora_A.weight": torch.ones(1, 64),
        "base_model.model.model.norm.lora_B.weight": torch.ones(64, 1),
    }
    with pytest.raises(ValueError, match=r"no adapters for model\.norm"):
        engine.load_weights("B", factors, 1)


def test_ranks_above_vllms_are_refused():
    model = dataclasses.replace(SYSTEM.models["m"], lora=Lora(rank=513))
    with pytest.raises(UserError, match=r"`lora\.rank = 513` is above what vLLM serves, 512"):
        started(dataclasses.replace(SYSTEM, models={"m": model}))


@pytest.mark.ray
def test_in_a_worker_adapters_are_synced_and_loaded_from_checkpoints(engine, tmp_path):
    from runtime.cluster.cluster import cluster
    from runtime.cluster.handles import actors

    trained = learner("A")
    trained.update(answered(engine, ["A"])["A"])
    trained.save(tmp_path)
    asked = requests("C")

    async def run():
        with cluster(SYSTEM) as found:
            async with actors(SYSTEM, found) as crew:
                gaps = [await crew.sync("A")]
                await crew.load(SYSTEM.policies["C"], tmp_path, 7)
                turns = recorded(asked, await crew.engines["m"].generate(asked))
                gaps += [gap(turns, {"C": trained}), await crew.sync("A"), await crew.sync("C")]
                with pytest.raises(UserError, match="holds no checkpoint of policy C"):
                    await crew.load(SYSTEM.policies["C"], tmp_path / "nowhere")
                return gaps, turns["C"][0].weights_version

    gaps, version = asyncio.run(run())
    assert max(gaps) < 1e-4
    assert version == 7

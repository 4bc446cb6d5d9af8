"""What is refused before anything heavy starts."""

import asyncio
import sys
from dataclasses import replace

import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Learner, Model, Pool
from runtime.cluster.cluster import cluster
from runtime.cluster.handles import actors
from runtime.cluster.support import gpus_here, require_gpus, require_supported
from tests.cluster.systems import system
from tests.engines.tiny import model


def test_a_tiny_system_is_supported():
    require_supported(system())


@pytest.mark.parametrize(
    ("models", "says", "fix"),
    [
        ({"m": Model("m", weights="a/b", engine=Call("sglang"))}, "'sglang' is not available", "--set m.engine=hf"),
        ({"m": Model("m", weights={"path": "nowhere"})}, "no folder nowhere", "relative to the .mas file"),
    ],
)
def test_what_cannot_be_had_is_named_with_a_way_out(models, says, fix):
    with pytest.raises(UserError) as caught:
        require_supported(system(models=models))
    assert says in caught.value.message
    assert fix in caught.value.help


def test_remote_models_alone_need_no_ray(monkeypatch):
    far = Model("far", engine=Call("openai", {"url": "http://127.0.0.1:1/v1", "model": "gpt"}))
    remote = system(("A",), models={"far": far}, frozen=("A",), pools=[Pool("main", cpus=64)])
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it fails

    async def open_and_close():
        require_supported(remote)
        with cluster(remote) as found:
            async with actors(remote, found) as crew:
                return crew

    crew = asyncio.run(open_and_close())
    assert list(crew.engines) == ["far"]
    assert not crew.learners


def test_missing_packages_are_named(monkeypatch):
    find = "importlib.util.find_spec"
    monkeypatch.setattr(find, lambda name: None if name in ("ray", "transformers") else object())
    with pytest.raises(UserError, match="ray and transformers") as caught:
        require_supported(system())
    assert caught.value.help == "pip install 'drmasc[train]'"


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    greedy = system(pools=[Pool("main", gpus=4), Pool("small", cpus=1)])
    with pytest.raises(UserError, match=r"ask for 4 GPUs, and there are 0: main \(4\)"):
        require_supported(greedy)
    require_gpus(greedy, 4)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere:6379")
    require_supported(greedy)  # they may be there


def test_what_waits_off_the_gpu_needs_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    waiting = system(models={"small": replace(model("small"), learner=Learner(offload=True))})
    with pytest.raises(UserError, match=r"`learner\.offload` frees a GPU's memory"):
        require_supported(waiting)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    require_supported(waiting)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("RAY_ADDRESS", "somewhere:6379")
    require_supported(waiting)


def test_visible_gpus_are_counted(monkeypatch):
    for value, count in (("0,1,3", 3), ("", 0), ("-1", 0), ("GPU-8932f937", 1)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert gpus_here() == count


def test_engines_that_sleep_cannot_roll_out_meanwhile():
    asleep = system(models={"m": replace(model("m"), engine=Call("hf", {"sleep": True}))})
    require_supported(asleep)
    with pytest.raises(UserError, match=r"`engine\.sleep` .* `train\.staleness = 1`"):
        require_supported(replace(asleep, train=replace(asleep.train, staleness=1)))


def test_memory_of_gpus_in_a_pool_without_them():
    with pytest.raises(UserError, match="'main' has no GPUs, whose `memory` could be checked"):
        require_supported(system(pools=[Pool("main", memory=80.0)]))

"""Settings of `vllm(…)` that reach vLLM, and what it cannot do is refused in words."""

import asyncio
import dataclasses
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.bench_equality import compiled, gap, recorded, requests, started
from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.learning.learner import Learner

pytestmark = [pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"), pytest.mark.slow]

SYSTEM = compiled("tiny(hidden = 128, heads = 4)", "adapter", lr=3e-2)


def with_options(**options):
    model = dataclasses.replace(SYSTEM.models["m"], engine=Call("vllm", options))
    return dataclasses.replace(SYSTEM, models={"m": model})


def test_sizes_are_those_that_are_set():
    torch.set_num_threads(1)
    engine: Any = started(with_options(kv_memory=0.125, batch_tokens=2048, max_batch=3, eager=True))[0]
    config = engine._engine.vllm_config
    assert (config.scheduler_config.max_num_batched_tokens, config.scheduler_config.max_num_seqs) == (2048, 3)
    assert config.cache_config.kv_cache_memory_bytes == 2**27
    assert config.model_config.enforce_eager


@pytest.mark.skipif(torch.cuda.is_available(), reason="of the CPU")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sleep": True}, "gives back memory of a GPU, and its engine has none"),
        ({"batch_tokens": 512}, r"max_num_batched_tokens \(512\) is smaller than max_model_len \(1024\)"),
        ({"kv_memory": 1e5}, "emory"),
        ({"tensor_parallel": 3}, "must be divisible by tensor parallel size"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused_at_the_start(options, says):
    with pytest.raises(UserError, match=says):
        started(with_options(**options))


@pytest.mark.ray
def test_two_processes_serve_one_model_and_end_with_their_worker():
    """Shards are exchanged in each of them."""
    from runtime.cluster.cluster import cluster
    from runtime.cluster.handles import actors

    system = with_options(tensor_parallel=2)
    asked = requests("B")
    frozen = Learner(system.policies["B"], system.models["m"], system.agents, system.train, system.base)

    async def run():
        with cluster(system) as found:
            async with actors(system, found) as crew:
                turns = recorded(asked, await crew.engines["m"].generate(asked))
                return gap(turns, {"B": frozen}), await crew.sync("A")

    assert max(asyncio.run(run())) < 1e-4
    assert not [name for path in Path("/proc").glob("[0-9]*/cmdline") if "VLLM::" in (name := path.read_text())]

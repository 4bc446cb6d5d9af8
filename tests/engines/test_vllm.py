"""vLLM itself, on whatever device is here, against transformers. Skipped only where it is not installed."""

import dataclasses
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from drmas_dsl.graph.settings import Call
from runtime import models
from runtime.cluster.actors import CANARY_TOKENS
from runtime.cluster.sync import TOLERANCE, canary_prompt
from runtime.engines.protocol import Completion
from tests.engines.tiny import model, prompts, request

pytestmark = [pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"), pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TINY = {"hidden": 64, "heads": 2}  # vLLM has no kernels for heads of less than 32 on the CPU
MODEL = dataclasses.replace(model(**TINY, context=1024), engine=Call("vllm", {"max_batch": 64}))
LONG = tuple((3 * place) % 250 for place in range(400))  # more than two blocks of the prefix cache


@pytest.fixture(scope="module")
def engine():
    from runtime.engines.vllm import VllmEngine

    torch.set_num_threads(1)
    return VllmEngine(MODEL, ["a"], "")


@pytest.fixture
def net(engine):
    """The model whose weights the engine has, at the start of every test."""
    net = models.load_model(MODEL, "")
    engine.load_weights("a", weights_of(net), 0)
    return net


def weights_of(net):
    return {name: parameter.detach() for name, parameter in net.named_parameters()}


def scored(net, asked, given):
    """Largest distance of a completion's log-probabilities from those of a full forward pass."""
    assert isinstance(given, Completion), given
    ids = torch.tensor([[*asked.prompt_ids, *given.response_ids]])
    with torch.inference_mode():
        logp = (net(ids).logits[0].float() / (asked.sampling.temperature or 1.0)).log_softmax(-1)
    start = len(asked.prompt_ids)
    expected = logp[torch.arange(start - 1, ids.shape[1] - 1), ids[0, start:]]
    return (torch.tensor(given.logprobs) - expected).abs().max().item()


def gap(engine, net, requests):
    """The same over the engine's answers to some requests."""
    return max(scored(net, *pair) for pair in zip(requests, engine.generate(requests), strict=True))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_a_full_forward_pass(engine, net, temperature):
    requests = [request(p, seed, temperature=temperature) for seed, p in enumerate(prompts(12))]
    assert gap(engine, net, [*requests, request(LONG, 99, temperature=temperature)]) < 1e-4


def test_filters_renormalise_the_logprobs(engine, net):
    (only,) = engine.generate([request(b"hello", top_k=1)])
    assert only.logprobs == pytest.approx([0.0] * len(only.logprobs), abs=1e-5)


def test_greedy_equals_the_embedded_engine(engine, net):
    from runtime.engines.hf import HfEngine

    requests = [request(p, temperature=0.0, max_tokens=20) for p in prompts(6)]
    expected = HfEngine(dataclasses.replace(MODEL, engine=Call("hf")), ["a"], "").generate(requests)
    for ours, theirs in zip(engine.generate(requests), expected, strict=True):
        assert isinstance(theirs, Completion)
        assert ours.response_ids == theirs.response_ids
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_seeds_decide_whatever_else_is_in_the_batch(engine, net):
    requests = [request(p, seed, max_tokens=30) for seed, p in enumerate(prompts(9))]
    together = engine.generate(requests)
    assert engine.generate(requests[4:5])[0].response_ids == together[4].response_ids
    with ThreadPoolExecutor(9) as threads:  # as many callers join one batch
        apart = list(threads.map(lambda asked: engine.generate([asked])[0], requests))
    assert [c.response_ids for c in apart] == [c.response_ids for c in together]


def test_seeded_prompts_of_more_tokens_than_a_step_takes(engine, net):
    """None is read in parts, which vLLM cannot do on the CPU where a request has a seed."""
    long = [tuple((3 * place + row) % 250 for place in range(1000)) for row in range(12)]
    assert gap(engine, net, [request(p, seed) for seed, p in enumerate(long)]) < 1e-4


@pytest.mark.parametrize("prompt", [b"short", LONG], ids=["short", "in the prefix cache"])
def test_new_weights_are_used_everywhere(engine, net, prompt):
    """Also in the tied head, and not mixed with cached blocks of the old ones."""
    other = models.load_model(model(**TINY, seed=7), "")
    asked = [request(prompt, seed) for seed in range(3)]
    assert gap(engine, net, asked) < 1e-4
    engine.load_weights("a", weights_of(other), 3)
    assert gap(engine, other, asked) < 1e-4
    assert engine.generate(asked)[0].weights_version == 3


def test_others_in_the_process_may_still_choose_their_threads(engine):
    torch.set_num_threads(2)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1


def test_the_canary_shows_cached_blocks_of_old_weights(engine, net, monkeypatch):
    asked = [request(canary_prompt(engine.canary_length, engine.vocabulary, engine.context), max_tokens=CANARY_TOKENS)]
    other = models.load_model(model(**TINY, seed=7), "")
    engine.generate(asked)
    with monkeypatch.context() as broken:
        broken.setattr(engine._engine, "reset_prefix_cache", lambda: None)
        engine.load_weights("a", weights_of(other), 1)
        assert gap(engine, other, asked) > TOLERANCE["float32"]
    engine.load_weights("a", weights_of(other), 2)
    assert gap(engine, other, asked) < 1e-4


def test_weights_wait_for_what_is_under_way_and_later_requests_for_them(engine, net):
    """Every response is of one version, and all that were asked for after the exchange are of the new one."""
    other = models.load_model(model(**TINY, seed=7), "")
    early, late = ([request(p, seed, max_tokens=40) for seed, p in enumerate(prompts(8))] for _ in range(2))
    with ThreadPoolExecutor(20) as threads:
        first = [threads.submit(engine.generate, [asked]) for asked in early]
        time.sleep(0.05)
        exchange = threads.submit(engine.load_weights, "a", weights_of(other), 5)
        time.sleep(0.01)
        second = [threads.submit(engine.generate, [asked]) for asked in late]
        exchange.result()
    assert {completion.weights_version for future in second for completion in future.result()} == {5}
    for asked, future in zip(early, first, strict=True):
        (given,) = future.result()
        expected = net if given.weights_version == 0 else other
        assert scored(expected, asked, given) < 1e-4


def test_a_stop_text_ends_the_response_and_stays(engine, net):
    tokenizer = models.load_tokenizer(MODEL, "")
    (free,) = engine.generate([request(b"stop here", temperature=0.0, max_tokens=30)])
    stop = tokenizer.decode(list(free.response_ids[4:6]))
    (given,) = engine.generate([request(b"stop here", temperature=0.0, max_tokens=30, stop=("never", stop))])
    expected = next(n for n in range(30) if stop in tokenizer.decode(list(free.response_ids[:n])))
    assert (given.response_ids, given.finish) == (free.response_ids[:expected], "stop")


def test_end_tokens_and_context(engine, net):
    end = models.load_tokenizer(MODEL, "").eos_token_id
    completions = engine.generate([request(p, seed, max_tokens=60) for seed, p in enumerate(prompts(32))])
    for given in completions:
        assert (given.response_ids[-1] == end) == (given.finish == "stop")
        assert given.finish == "stop" or len(given.response_ids) == 60
    near, full, empty, foreign = engine.generate(
        [request(range(200), max_tokens=5000), request([1] * 1024), request(()), request(b"x", policy="b")]
    )
    assert len(near.response_ids) <= 1024 - 200
    assert isinstance(full, ValueError)
    assert isinstance(empty, ValueError)
    assert isinstance(foreign, KeyError)


HEADS_OF_8 = """
from dataclasses import replace
from drmas_dsl.graph.settings import Call
from runtime.engines.vllm import VllmEngine
from tests.engines.tiny import model
VllmEngine(replace(model(hidden=32, heads=4), engine=Call("vllm")), ["a"], "")
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels of the CPU")
def test_a_model_that_vllm_has_no_kernels_for_is_refused_at_the_start():
    failed = subprocess.run([sys.executable, "-c", HEADS_OF_8], capture_output=True, text=True, cwd=ROOT, check=False)
    assert "UserError: vLLM cannot serve model 'small': Unsupported CPU attention" in failed.stderr


BROKEN = """
import dataclasses
from drmas_dsl.graph.settings import Call
from runtime.engines.protocol import EngineBroken
from runtime.engines.vllm import VllmEngine
from tests.engines.tiny import model, request

engine = VllmEngine(dataclasses.replace(model(hidden=64, heads=2), engine=Call("vllm")), ["a"], "")

def fail():
    raise MemoryError

engine._engine.step = fail
for seed in range(2):
    try:
        engine.generate([request(b"hi", seed), request(b"ho", seed)])
    except EngineBroken as error:
        print(error)
"""


def test_an_engine_whose_step_failed_says_so_to_all_that_ask():
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines() == ["MemoryError: MemoryError"] * 2


@pytest.mark.ray
def test_a_vllm_engine_in_its_worker_is_synced():
    import asyncio

    from runtime.cluster.cluster import cluster
    from runtime.cluster.handles import actors
    from tests.cluster.systems import system

    everything = system(("Solver",), models={"small": MODEL})

    async def run():
        with cluster(everything) as found:
            async with actors(everything, found) as crew:
                gaps = [await crew.sync("Solver") for _ in range(2)]
                answers = await asyncio.gather(
                    *(crew.engines["small"].generate([request(b"hi", n, policy="Solver")]) for n in range(8))
                )
                return gaps, answers

    gaps, answers = asyncio.run(run())
    assert max(gaps) < 1e-4
    assert all(isinstance(given, Completion) for (given,) in answers)

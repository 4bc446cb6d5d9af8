"""The embedded engine against transformers itself, on real (tiny) models."""

import pytest
import torch

from runtime import models
from runtime.engines.hf import HfEngine
from runtime.engines.protocol import Completion
from tests.engines.tiny import model, prompts, request


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def engine():
    return HfEngine(model(), ["a", "b"], "")


@pytest.fixture(scope="module")
def net():
    return models.load_model(model(), "")


def served(engine, requests):
    """Completions, none of which failed."""
    completions = engine.generate(requests)
    assert all(isinstance(completion, Completion) for completion in completions), completions
    return completions


def full_logprobs(net, prompt, response, temperature=1.0):
    """Of the response's tokens, by one forward pass over the whole text, without padding, cache or mask."""
    ids = torch.tensor([[*prompt, *response]])
    with torch.inference_mode():
        logp = (net(ids).logits[0].float() / temperature).log_softmax(-1)
    positions = torch.arange(len(prompt) - 1, ids.shape[1] - 1)
    return logp[positions, ids[0, len(prompt) :]]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_a_full_forward_pass(engine, net, temperature):
    requests = [request(p, seed, temperature=temperature) for seed, p in enumerate(prompts(12))]
    for asked, given in zip(requests, served(engine, requests), strict=True):
        expected = full_logprobs(net, asked.prompt_ids, given.response_ids, temperature)
        assert torch.allclose(torch.tensor(given.logprobs), expected, atol=1e-4)


def test_greedy_equals_generate_of_transformers(engine, net):
    requests = [request(p, temperature=0.0, max_tokens=20) for p in prompts(6)]
    for asked, given in zip(requests, served(engine, requests), strict=True):
        ids = torch.tensor([asked.prompt_ids])
        whole = net.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20)
        assert given.response_ids == tuple(whole[0, ids.shape[1] :].tolist())


def test_the_same_batch_gives_the_same_bits(engine):
    requests = [request(p, seed, max_tokens=30) for seed, p in enumerate(prompts(9))]
    assert served(engine, requests) == served(engine, requests)


def test_a_request_does_not_depend_on_the_others(engine):
    requests = [request(p, seed, max_tokens=30) for seed, p in enumerate(prompts(9))]
    together = served(engine, requests)
    for asked, given in zip(requests, together, strict=True):
        (alone,) = served(engine, [asked])
        assert alone.response_ids == given.response_ids
        assert alone.logprobs == pytest.approx(given.logprobs, abs=1e-4)


def test_equal_prompts_are_read_once_and_sampled_apart(engine, net):
    (prompt,) = prompts(1, longest=30)
    requests = [request(prompt, seed) for seed in range(8)]
    completions = served(engine, requests)
    assert len({given.response_ids for given in completions}) > 4
    for given in completions:
        assert torch.allclose(torch.tensor(given.logprobs), full_logprobs(net, prompt, given.response_ids), atol=1e-4)


def test_max_batch_splits_and_keeps_the_order():
    small = HfEngine(model(engine_args={"max_batch": 3}), ["a"], "")
    requests = [request(p, seed) for seed, p in enumerate(prompts(8))]
    whole = served(HfEngine(model(), ["a"], ""), requests)
    assert [c.response_ids for c in served(small, requests)] == [c.response_ids for c in whole]


def test_end_tokens_and_limits(engine):
    end = engine._tokenizer.eos_token_id
    requests = [request(p, seed, max_tokens=60) for seed, p in enumerate(prompts(32))]
    completions = served(engine, requests)
    assert {c.finish for c in completions} == {"stop", "length"}
    for given in completions:
        assert end not in given.response_ids[:-1]
        assert (given.response_ids[-1] == end) == (given.finish == "stop")
        assert (
            len(given.logprobs) == len(given.response_ids) == (60 if given.finish == "length" else len(given.logprobs))
        )


def test_a_stop_text_ends_the_response_and_stays(engine):
    (free,) = served(engine, [request(b"stop here", temperature=0.0, max_tokens=30)])
    text = engine._tokenizer.decode(list(free.response_ids[:12]))
    stop = text[-3:]
    (given,) = served(engine, [request(b"stop here", temperature=0.0, max_tokens=30, stop=("never", stop))])
    expected = next(n for n in range(30) if stop in engine._tokenizer.decode(list(free.response_ids[:n])))
    assert given.response_ids == free.response_ids[:expected]
    assert given.finish == "stop"


def test_the_context_is_never_passed():
    small = HfEngine(model(context=24), ["a"], "")
    asked = [request(range(20), max_tokens=50), request(range(5), 1, max_tokens=4), request(range(24)), request(())]
    near, far = served(small, asked[:2])
    full, empty = small.generate(asked)[2:]
    assert len(near.response_ids) <= 4
    assert len(far.response_ids) <= 4
    assert isinstance(full, ValueError)
    assert isinstance(empty, ValueError)


def test_policies_have_their_own_weights_once_they_differ():
    engine = HfEngine(model(), ["a", "b", "c"], "")
    other = models.load_model(model(seed=5), "")
    asked = [request(b"who?", policy=name) for name in ("a", "b", "c")]
    before = served(engine, asked)
    assert before[0] == before[1] == before[2]
    engine.load_weights("b", dict(other.named_parameters()), version=4)
    after = served(engine, asked)
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1].weights_version == 4
    expected = full_logprobs(other, b"who?", after[1].response_ids)
    assert torch.allclose(torch.tensor(after[1].logprobs), expected, atol=1e-4)


def test_weights_that_do_not_fit_are_refused(engine):
    weights = dict(models.load_model(model(), "").named_parameters())
    name = next(iter(weights))
    with pytest.raises(ValueError, match="no weights came for"):
        engine.load_weights("b", {key: value for key, value in weights.items() if key != name}, 1)
    with pytest.raises(ValueError, match="no parameter 'more'"):
        engine.load_weights("b", {**weights, "more": weights[name]}, 1)
    with pytest.raises(ValueError, match="shape"):
        engine.load_weights("b", {**weights, name: weights[name][:1]}, 1)


def test_the_cache_grows_past_its_room(net):
    engine = HfEngine(model(), ["a"], "")
    asked = request(b"a long way", temperature=0.9, max_tokens=200, seed=11)
    given = served(engine, [asked] * 3)[0]
    expected = full_logprobs(net, asked.prompt_ids, given.response_ids, 0.9)
    assert torch.allclose(torch.tensor(given.logprobs), expected, atol=1e-4)

"""Sampling: the right distribution, the right log-probabilities, row by row."""

import pytest
import torch

from drmas_dsl.graph.settings import Sampling
from runtime.engines.sampling import Sampler, draws

CPU = torch.device("cpu")
LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -torch.inf])


def sample(settings, uniform, logits=LOGITS):
    rows = logits.expand(len(uniform), -1)
    return Sampler.of([settings] * len(uniform), logits.shape[-1], CPU).sample(rows, torch.as_tensor(uniform).double())


def distribution(settings):
    """What is sampled over an even grid of draws, and the log-probabilities that come with it."""
    grid = (torch.arange(20_000) + 0.5) / 20_000
    tokens, logp = sample(settings, grid)
    share = torch.bincount(tokens, minlength=6) / len(grid)
    reported = torch.zeros(6)
    reported[tokens] = logp.exp()
    return share, reported


def softmax_of(kept, temperature=1.0):
    mask = torch.full_like(LOGITS, -torch.inf)
    mask[list(kept)] = 0
    return ((LOGITS / temperature) + mask).softmax(-1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Sampling(), softmax_of(range(6))),
        (Sampling(temperature=0.5), softmax_of(range(6), 0.5)),
        (Sampling(top_k=2), softmax_of([0, 1])),
        (Sampling(top_k=100), softmax_of(range(6))),
        (Sampling(top_p=0.6), softmax_of([0, 1])),
        (Sampling(top_p=0.01), softmax_of([0])),
        (Sampling(min_p=0.2), softmax_of([0, 1, 2])),
        (Sampling(top_k=3, top_p=0.7), softmax_of([0, 1])),
        (Sampling(temperature=2.0, min_p=0.4), softmax_of([0, 1, 2], 2.0)),
    ],
    ids=str,
)
def test_distribution_and_logprobs(settings, expected):
    share, reported = distribution(settings)
    assert torch.allclose(share, expected, atol=1e-4)
    assert torch.allclose(reported[share > 0], expected[share > 0], atol=1e-6)


def test_greedy_takes_the_likeliest_and_reports_it_under_temperature_one():
    tokens, logp = sample(Sampling(temperature=0.0, top_k=1), [0.999])
    assert tokens.item() == 0
    assert logp.item() == pytest.approx(LOGITS.log_softmax(-1)[0].item())


def test_the_extreme_draws_never_hit_a_token_of_probability_zero():
    tokens, logp = sample(Sampling(), [0.0, 1 - 2**-53])
    assert tokens.tolist() == [0, 4]
    assert torch.isfinite(logp).all()


def test_rows_keep_their_own_settings():
    settings = [Sampling(temperature=0.0), Sampling(top_k=1), Sampling()]
    sampler = Sampler.of(settings, 6, CPU)
    uniform = torch.tensor([0.9, 0.9, 0.9], dtype=torch.float64)
    tokens, _ = sampler.sample(LOGITS.expand(3, -1), uniform)
    assert tokens.tolist() == [0, 0, 3]
    kept, _ = sampler.rows(torch.tensor([2, 0])).sample(LOGITS.expand(2, -1), uniform[:2])
    assert kept.tolist() == [3, 0]


def test_draws_depend_on_their_seed_alone():
    both = draws([3, 2**63 + 5], 4, CPU)
    assert torch.equal(both[1:], draws([2**63 + 5], 4, CPU))
    assert torch.equal(draws([3], 9, CPU)[:, :4], both[:1])
    assert not torch.equal(both[0], both[1])
    assert ((both >= 0) & (both < 1)).all()

"""The loss: the reference's numbers, and each setting's effect on small tensors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import tensor

from runtime.learning import losses
from runtime.learning.losses import policy_loss

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "policy_loss.json").read_text())["cases"]
KEYS = sorted({key for case in REFERENCE for key in case["expected"]})


def tensors(case):
    new, old, ref, advantages = (
        tensor(case[name]) for name in ("new_logprobs", "old_logprobs", "ref_logprobs", "advantages")
    )
    return new, old, ref, advantages, torch.arange(new.shape[1])[None] < tensor(case["lengths"])[:, None]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("case", REFERENCE, ids=range(len(REFERENCE)))
def test_the_reference(case, key):
    aggregate, clips = key.split("/clip ")
    low, high = map(float, clips.split("-"))
    new, old, _, advantages, mask = tensors(case)
    loss, tokens = policy_loss(
        new,
        old,
        advantages,
        mask,
        clip_low=low,
        clip_high=high,
        dual_clip=case["dual_clip"],
        aggregate=aggregate.replace("seq-", "sequence-").replace("-", "_"),
    )
    expected = case["expected"][key]
    figures = [loss, *(value[mask].float().mean() for value in tokens[1:])]
    names = ("loss", "clip_fraction", "clip_fraction_lower", "approx_kl")
    assert [float(figure) for figure in figures] == pytest.approx([expected[name] for name in names], abs=1e-5)


@pytest.mark.parametrize(("estimator", "name"), [("k1", "kl"), ("k2", "mse"), ("k3", "low_var_kl")])
@pytest.mark.parametrize("case", REFERENCE, ids=range(len(REFERENCE)))
def test_the_reference_kl(case, estimator, name):
    new, _, ref, _, mask = tensors(case)
    value = losses.kl(new, ref, estimator)[mask].mean()
    assert float(value) == pytest.approx(case["kl_token_mean"][name], abs=1e-5)


def one_token(ratio: float, advantage: float, **settings) -> float:
    """The loss of a single token at a ratio."""
    return float(losses.token_losses(tensor(math.log(ratio)), tensor(0.0), tensor(advantage), **settings).loss)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 1.0, -1.0),
        (1.5, 1.0, -1.3),  # above 1 + clip_high, nothing more to gain
        (0.5, 1.0, -0.5),  # below, the gradient stays
        (0.5, -1.0, 0.9),  # below 1 - clip_low, nothing more to gain
        (2.0, -1.0, 2.0),
        (9.0, -1.0, 3.0),  # the dual clip
    ],
)
def test_clipping(ratio, advantage, expected):
    assert one_token(ratio, advantage, clip_low=0.1, clip_high=0.3) == pytest.approx(expected, abs=1e-6)


def test_the_dual_clip_is_a_setting():
    assert one_token(9.0, -1.0, dual_clip=5.0) == pytest.approx(5.0)


def test_importance_weights_are_capped_and_detached():
    new = tensor([[0.0, 0.0]], requires_grad=True)
    engine = tensor([[-0.5, -5.0]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss, _ = policy_loss(new, new.detach(), tensor([1.0]), mask, engine_logprobs=engine, tis=2.0)
    assert float(loss.detach()) == pytest.approx(-(math.exp(0.5) + 2.0) / 2)
    torch.autograd.backward(loss)
    assert new.grad is not None
    torch.testing.assert_close(new.grad, tensor([[-math.exp(0.5) / 2, -1.0]]))
    assert not losses.importance_weights(new, engine, 2.0).requires_grad
    off, _ = policy_loss(new, new.detach(), tensor([1.0]), mask, engine_logprobs=engine, tis=None)
    assert float(off.detach()) == -1.0


def test_aggregates():
    logprobs = torch.zeros(2, 3)
    mask = tensor([[True, False, False], [True, True, True]])

    def loss(aggregate):
        return float(policy_loss(logprobs, logprobs, tensor([1.0, 4.0]), mask, aggregate=aggregate)[0])

    assert loss("token_mean") == pytest.approx(-13 / 4)
    assert loss("sequence_mean_token_sum") == pytest.approx(-13 / 2)
    assert loss("sequence_mean_token_mean") == pytest.approx(-5 / 2)
    with pytest.raises(ValueError, match="aggregate"):
        loss("mean")


def test_weights_scale_the_numerator_only():
    zeros = torch.zeros(2, 1)
    mask = torch.ones(2, 1, dtype=torch.bool)
    loss, _ = policy_loss(zeros, zeros, tensor([1.0, 1.0]), mask, weight=tensor([[3.0], [0.0]]))
    assert float(loss) == pytest.approx(-3 / 2)


def test_coefficients_may_differ_by_turn():
    new = torch.full((2, 1), math.log(1.5))
    mask = torch.ones(2, 1, dtype=torch.bool)
    _, tokens = policy_loss(new, torch.zeros(2, 1), tensor([1.0, 1.0]), mask, clip_high=tensor([[0.1], [0.4]]))
    torch.testing.assert_close(tokens.loss, tensor([[-1.1], [-1.4]]))


def test_entropy_is_a_bonus_and_kl_a_cost():
    zeros = torch.zeros(1, 2)
    mask = torch.ones(1, 2, dtype=torch.bool)
    entropy = tensor([[0.5, 1.5]])
    ref = tensor([[-1.0, -1.0]])

    def loss(**terms: Any) -> float:
        return float(policy_loss(zeros, zeros, tensor([0.0]), mask, **terms)[0])

    assert loss(entropy=entropy, entropy_coefficient=0.1) == pytest.approx(-0.1)
    assert loss(ref_logprobs=ref, kl_coefficient=0.1, kl_estimator="k2") == pytest.approx(0.05)
    assert loss(ref_logprobs=ref, kl_coefficient=0.1, kl_estimator="k3") == pytest.approx(0.1 * math.exp(-1))


def test_k3_is_clamped_as_in_the_reference():
    assert float(losses.kl(tensor(-15.0), tensor(0.0), "k3")) == 10.0


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_what_is_masked_counts_nowhere(poison):
    new = tensor([[-1.0, poison], [-2.0, -1.0]], requires_grad=True)
    mask = tensor([[True, False], [True, True]])
    old = tensor([[-1.1, 0.0], [-2.0, -1.5]])
    clean = tensor([[-1.0, 0.0], [-2.0, -1.0]])
    advantages = tensor([1.0, -1.0])
    loss, _ = policy_loss(new, old, advantages, mask)
    assert float(loss.detach()) == pytest.approx(float(policy_loss(clean, old, advantages, mask)[0]))
    torch.autograd.backward(loss)
    assert new.grad is not None
    assert new.grad[0, 1] == 0


def test_parts_add_up_to_the_whole():
    torch.manual_seed(0)
    new, old = torch.randn(6, 5), torch.randn(6, 5)
    mask = torch.rand(6, 5) < 0.7
    mask[:, 0] = True
    advantages = torch.randn(6)
    for aggregate, denominator in (
        ("token_mean", float(mask.sum())),
        ("sequence_mean_token_sum", 6.0),
        ("sequence_mean_token_mean", 6.0),
    ):
        whole = policy_loss(new, old, advantages, mask, aggregate=aggregate)[0]
        parts = [
            policy_loss(new[s], old[s], advantages[s], mask[s], aggregate=aggregate, denominator=denominator)[0]
            for s in (slice(0, 1), slice(1, 4), slice(4, 6))
        ]
        torch.testing.assert_close(sum(parts), whole)


def test_logprobs_and_entropy_are_those_of_a_categorical():
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 7)
    tokens = torch.randint(0, 7, (2, 3))
    distribution = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(losses.token_logprobs(logits, tokens), distribution.log_prob(tokens))
    torch.testing.assert_close(losses.token_entropy(logits), distribution.entropy())

"""The one loss: clipped surrogate with dual clip, entropy bonus and KL to the frozen start. Pure functions of tensors.

Every coefficient may be a number or a tensor that broadcasts to (B, T), so that agents who share weights keep settings of
their own. Legend: B turns, T response tokens (padded), V vocabulary; tensors are (B, T) unless said otherwise.
Sources: PPO (Schulman et al. 2017), dual clip (Ye et al. 2020), truncated importance sampling (Yao et al. 2025), KL
estimators k1 to k3 (Schulman 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drmas_dsl.graph.settings import AGGREGATES

DUAL_CLIP = 3.0
LOG_RATIO = 20.0  # ratios are exp of at most this; the reference clamps alike
KL_CLAMP = 10.0  # the reference's bound of k3


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """The loss to minimise (with gradient) and metrics (without), each of them a mean over the tokens that count.

    `clip_share`: tokens whose ratio was clipped; `lower_clip_share`: those that met the dual clip; `approx_kl`: k1 of
    the old policy against the new; `turn_losses`: what each turn adds to the loss, (B,).
    """

    loss: Tensor
    clip_share: Tensor
    lower_clip_share: Tensor
    approx_kl: Tensor
    turn_losses: Tensor


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float | Tensor = 0.2,
    clip_high: float | Tensor = 0.2,
    dual_clip: float = DUAL_CLIP,
    aggregate: str = "token_mean",
    engine_logprobs: Tensor | None = None,
    tis: float | None = None,
    entropy: Tensor | None = None,
    entropy_coefficient: float | Tensor = 0.0,
    ref_logprobs: Tensor | None = None,
    kl_coefficient: float | Tensor = 0.0,
    kl_estimator: str = "k3",
    weight: float | Tensor = 1.0,
    denominator: float | None = None,
) -> PolicyLoss:
    """The loss of a batch of turns, or a part of it.

    Args:
        logprobs: of the response tokens under the policy, with gradient.
        old_logprobs: the same before the first update of this rollout.
        advantages: (B,), or (B, T).
        mask: True where a token counts.
        clip_low: the ratio is held above 1 - clip_low.
        clip_high: the ratio is held below 1 + clip_high.
        dual_clip: with a negative advantage the surrogate is at most this times it.
        aggregate: `token_mean`, `sequence_mean_token_sum` or `sequence_mean_token_mean`.
        engine_logprobs: what the engine recorded; with `tis`, tokens are weighted by min(exp(old - engine), tis).
        entropy: of each token's distribution, with gradient; `entropy_coefficient` times it is taken off.
        ref_logprobs: under the frozen start; `kl_coefficient` times `kl_estimator` (k2 or k3) is added.
        weight: scales a token's loss, and not the denominator.
        denominator: tokens (`token_mean`) or turns (otherwise) to divide by; those that count here where None. Parts of
            a batch whose losses are to be summed take that of the whole batch.
    """
    mask = mask.bool()
    if advantages.dim() == 1:
        advantages = advantages[:, None]
    log_ratio = (logprobs - old_logprobs).masked_fill(~mask, 0.0).clamp(-LOG_RATIO, LOG_RATIO)
    ratio = log_ratio.exp()
    plain = -advantages * ratio
    clipped = -advantages * torch.minimum(
        torch.maximum(ratio, 1 - _tensor(clip_low, ratio)), 1 + _tensor(clip_high, ratio)
    )
    surrogate = torch.maximum(plain, clipped)
    bound = -advantages * dual_clip
    losses = torch.where(advantages < 0, torch.minimum(surrogate, bound), surrogate)
    if engine_logprobs is not None and tis is not None:
        losses = losses * importance_weights(old_logprobs, engine_logprobs, mask, tis)
    if entropy is not None:
        losses = losses - entropy_coefficient * entropy
    if ref_logprobs is not None:
        losses = losses + kl_coefficient * kl(logprobs, ref_logprobs, kl_estimator)
    turn_losses = _per_turn((losses * weight).masked_fill(~mask, 0.0), mask, aggregate)
    if denominator is None:
        denominator = float(mask.sum() if aggregate == "token_mean" else mask.any(-1).sum())
    turn_losses = turn_losses / max(denominator, 1.0)
    loss = turn_losses.sum()
    with torch.no_grad():
        return PolicyLoss(
            loss=loss,
            clip_share=masked_mean((clipped > plain).float(), mask),
            lower_clip_share=masked_mean(((surrogate > bound) & (advantages < 0)).float(), mask),
            approx_kl=masked_mean(-log_ratio, mask),
            turn_losses=turn_losses.detach(),
        )


def importance_weights(old_logprobs: Tensor, engine_logprobs: Tensor, mask: Tensor, cap: float) -> Tensor:
    """min(exp(old - engine), cap), detached: corrects for what the engine computes otherwise than the learner."""
    gap = (old_logprobs - engine_logprobs).detach().masked_fill(~mask, 0.0).clamp(-LOG_RATIO, LOG_RATIO)
    return gap.exp().clamp(max=cap)


def kl(logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimate per token of the KL divergence of the policy from the reference.

    k1 is unbiased and, as a loss, has no gradient on policy; k2 is half its square; k3 is exp(-k1) - 1 + k1, clamped.
    """
    k1 = logprobs - ref_logprobs
    if estimator == "k1":
        return k1
    if estimator == "k2":
        return 0.5 * k1.square()
    if estimator == "k3":
        negative = (-k1).clamp(-LOG_RATIO, LOG_RATIO)
        return (negative.exp() - 1 - negative).clamp(-KL_CLAMP, KL_CLAMP)
    raise ValueError(f"unknown KL estimator {estimator!r}")


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean where `mask`; 0 where nothing counts."""
    return values.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of `tokens` (B, T) under `logits` (B, T, V)."""
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    return chosen - logits.logsumexp(-1)


def token_entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of the distributions of `logits` (B, T, V)."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def _per_turn(losses: Tensor, mask: Tensor, aggregate: str) -> Tensor:
    """Each turn's part of the numerator, (B,); `losses` is 0 where the mask is False."""
    if aggregate not in AGGREGATES:
        raise ValueError(f"unknown aggregate {aggregate!r}")
    if aggregate == "sequence_mean_token_mean":
        return losses.sum(-1) / mask.sum(-1).clamp(min=1)
    return losses.sum(-1)


def _tensor(value: float | Tensor, like: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=like.dtype, device=like.device)

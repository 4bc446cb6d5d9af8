"""The one loss: clipped surrogate with dual clip, entropy bonus and KL to the frozen start. Pure functions of tensors.

Every coefficient may be a number or a tensor that broadcasts to the tokens, so that agents who share weights keep settings of
their own. Legend: B turns, T response tokens (padded), V vocabulary.
Sources: PPO (Schulman et al. 2017), dual clip (Ye et al. 2020), truncated importance sampling (Yao et al. 2025), KL
estimators k1 to k3 (Schulman 2020).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from drmas_dsl.graph.settings import AGGREGATES

DUAL_CLIP = 3.0
LOG_RATIO = 20.0  # ratios are exp of at most this; the reference clamps alike
KL_CLAMP = 10.0  # the reference's bound of k3


class TokenLosses(NamedTuple):
    """Of every token: its loss (with gradient); whether its ratio was clipped, and whether it met the dual clip; and k1 of the
    old policy against the new."""

    loss: Tensor
    clipped: Tensor
    lower_clipped: Tensor
    approx_kl: Tensor


def token_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float | Tensor = 0.2,
    clip_high: float | Tensor = 0.2,
    dual_clip: float = DUAL_CLIP,
    engine_logprobs: Tensor | None = None,
    tis: float | None = None,
    entropy: Tensor | None = None,
    entropy_coefficient: float | Tensor = 0.0,
    ref_logprobs: Tensor | None = None,
    kl_coefficient: float | Tensor = 0.0,
    kl_estimator: str = "k3",
    weight: float | Tensor = 1.0,
) -> TokenLosses:
    """What each token adds to the numerator of the loss to minimise. Tensors are of one shape, or broadcast to it.

    Args:
        logprobs: of the response tokens under the policy, with gradient.
        old_logprobs: the same before the first update of this rollout.
        advantages: of the tokens.
        clip_low: the ratio is held above 1 - clip_low.
        clip_high: the ratio is held below 1 + clip_high.
        dual_clip: with a negative advantage the surrogate is at most this times it.
        engine_logprobs: what the engine recorded; with `tis`, tokens are weighted by min(exp(old - engine), tis).
        entropy: of each token's distribution, with gradient; `entropy_coefficient` times it is taken off.
        ref_logprobs: under the frozen start; `kl_coefficient` times `kl_estimator` is added.
        weight: scales a token's loss.

    Raises:
        ValueError: there is no such KL estimator.
    """
    log_ratio = (logprobs - old_logprobs).clamp(-LOG_RATIO, LOG_RATIO)
    ratio = log_ratio.exp()
    plain = -advantages * ratio
    clipped = -advantages * torch.minimum(
        torch.maximum(ratio, 1 - _tensor(clip_low, ratio)), 1 + _tensor(clip_high, ratio)
    )
    surrogate = torch.maximum(plain, clipped)
    bound = -advantages * dual_clip
    loss = torch.where(advantages < 0, torch.minimum(surrogate, bound), surrogate)
    if engine_logprobs is not None and tis is not None:
        loss = loss * importance_weights(old_logprobs, engine_logprobs, tis)
    if entropy is not None:
        loss = loss - entropy_coefficient * entropy
    if ref_logprobs is not None:
        loss = loss + kl_coefficient * kl(logprobs, ref_logprobs, kl_estimator)
    return TokenLosses(loss * weight, clipped > plain, (surrogate > bound) & (advantages < 0), -log_ratio.detach())


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    aggregate: str = "token_mean",
    denominator: float | None = None,
    **settings: Any,
) -> tuple[Tensor, TokenLosses]:
    """The loss of a padded batch of turns, or of a part of it, with gradient; and those of its tokens, which are 0 (or False)
    where `mask` is.

    Args:
        logprobs: (B, T), see `token_losses`; so are `old_logprobs` and what `settings` hold for it.
        advantages: (B,).
        mask: (B, T), True where a token counts.
        aggregate: `token_mean`, `sequence_mean_token_sum` or `sequence_mean_token_mean`.
        denominator: tokens (`token_mean`) or turns (otherwise) to divide by; those that count here where None. Parts of
            a batch whose losses are to be summed take that of the whole batch.

    Raises:
        ValueError: there is no such aggregate or KL estimator.
    """
    if aggregate not in AGGREGATES:
        raise ValueError(f"unknown aggregate {aggregate!r}")
    logprobs, old_logprobs = (
        logprobs.masked_fill(~mask, 0.0),
        old_logprobs.masked_fill(~mask, 0.0),
    )  # pads may be anything
    tokens = token_losses(logprobs, old_logprobs, advantages[:, None], **settings)
    tokens = TokenLosses(*(value.masked_fill(~mask, 0) for value in tokens))
    turns = tokens.loss.sum(-1)
    if aggregate == "sequence_mean_token_mean":
        turns = turns / mask.sum(-1).clamp(min=1)
    if denominator is None:
        denominator = float(mask.sum() if aggregate == "token_mean" else mask.any(-1).sum())
    return turns.sum() / max(denominator, 1.0), tokens


def importance_weights(old_logprobs: Tensor, engine_logprobs: Tensor, cap: float) -> Tensor:
    """min(exp(old - engine), cap), detached: corrects for what the engine computes otherwise than the learner."""
    return (old_logprobs - engine_logprobs).detach().clamp(-LOG_RATIO, LOG_RATIO).exp().clamp(max=cap)


def kl(logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimate per token of the KL divergence of the policy from the reference.

    k1 is unbiased and, as a loss, has no gradient on policy; k2 is half its square; k3 is exp(-k1) - 1 + k1, clamped.

    Raises:
        ValueError: there is no such estimator.
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


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of `tokens` (…) under `logits` (…, V)."""
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    return chosen - logits.logsumexp(-1)


def token_entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of the distributions of `logits` (…, V)."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def _tensor(value: float | Tensor, like: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=like.dtype, device=like.device)

"""What a policy's turns are trained for: the one loss with every agent's own coefficients on that agent's tokens.

Made once from settings and algorithm; it holds no weights. Legend: B turns, T response tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from drmas_dsl.graph import settings
from runtime.learning import losses
from runtime.learning.algorithms import Algorithm, from_call
from runtime.learning.batches import MicroBatch
from runtime.learning.updates import Sums
from runtime.records import Turn

COEFFICIENTS = ("clip_low", "clip_high", "kl", "entropy", "weight")


class Objective:
    """The loss of one policy's turns. `needs_reference`: some agent has a KL to the frozen start; `needs_entropy`: some
    agent has an entropy bonus."""

    def __init__(
        self, policy: settings.Policy, agents: Mapping[str, settings.Agent], train: settings.Train, device: torch.device
    ) -> None:
        self.algorithm = from_call(train.algorithm)
        self.aggregate = self.algorithm.aggregate or policy.aggregate
        self.tis = train.tis
        self.length = max(agent.sampling.max_tokens for agent in agents.values())
        self.codes = {name: code for code, name in enumerate(agents)}
        rows = [[_coefficient(name, agent.loss, self.algorithm) for name in COEFFICIENTS] for agent in agents.values()]
        self.table = torch.tensor(rows, device=device)
        self.needs_reference = bool(self._column("kl").any())
        self.needs_entropy = bool(self._column("entropy").any())

    def denominator(self, turns: Sequence[Turn]) -> float:
        """What the losses of a mini-batch's tokens are divided by."""
        if self.aggregate == "token_mean":
            return float(sum(len(turn.response_ids) for turn in turns))
        return float(len(turns) * (self.length if self.algorithm.constant_length else 1))

    def loss(
        self,
        batch: MicroBatch,
        logits: Tensor,
        old_logprobs: Tensor | None,
        ref_logprobs: Tensor | None,
        denominator: float,
        sums: Sums,
    ) -> Tensor:
        """The part of its mini-batch's loss that a micro-batch makes, with gradient; `sums` grow by it. `logits`
        (B, T, V) are at the turns' temperatures; without `old_logprobs` this very pass is the old policy."""
        logprobs = losses.token_logprobs(logits, batch.responses)
        with torch.set_grad_enabled(self.needs_entropy):
            entropy = losses.token_entropy(logits)
        old = logprobs.detach() if old_logprobs is None else old_logprobs
        engine = batch.pad([turn.logprobs for turn in batch.turns])
        table = self.table[[self.codes[turn.agent] for turn in batch.turns]]
        clip_low, clip_high, kl, bonus, weight = table.T[..., None]
        result = losses.policy_loss(
            logprobs,
            old,
            torch.tensor([turn.advantage for turn in batch.turns], device=logits.device),
            batch.mask,
            clip_low=clip_low,
            clip_high=clip_high,
            aggregate=self.aggregate,
            engine_logprobs=engine,
            tis=self.tis,
            entropy=entropy if self.needs_entropy else None,
            entropy_coefficient=bonus,
            ref_logprobs=ref_logprobs,
            kl_coefficient=kl,
            kl_estimator=self.algorithm.kl_estimator,
            weight=weight,
            denominator=denominator,
        )
        tokens = int(batch.mask.sum())
        gap = (old - engine).abs()[batch.mask]
        sums.tokens += tokens
        sums.loss += float(result.loss.detach())
        sums.clipped += float(result.clip_share) * tokens
        sums.entropy += float(entropy.detach()[batch.mask].sum())
        sums.approx_kl += float(result.approx_kl) * tokens
        sums.gap += float(gap.sum())
        sums.gap_max = max(sums.gap_max, float(gap.max()))
        if ref_logprobs is not None:
            divergence = losses.kl(logprobs.detach(), ref_logprobs, "k1")
            sums.kl += float(divergence[batch.mask].sum())
        finite = result.turn_losses.isfinite().tolist()
        sums.bad += [turn for turn, fine in zip(batch.turns, finite, strict=True) if not fine]
        return result.loss

    def _column(self, name: str) -> Tensor:
        return self.table[:, COEFFICIENTS.index(name)]


def _coefficient(name: str, loss: settings.Loss, algorithm: Algorithm) -> float:
    """The agent's own value, or the algorithm's where it has none."""
    own: float | None = getattr(loss, name)
    return float(getattr(algorithm, name)) if own is None else own

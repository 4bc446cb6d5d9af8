"""What a policy's turns are trained for: the one loss with every agent's own coefficients on that agent's tokens.

Made once from settings and algorithm; it holds no weights. Legend: B turns, N response tokens, n of them in a part, V vocabulary.
"""

from __future__ import annotations

import math
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
        regularized = (self._column("kl") != 0) | (self._column("entropy") != 0)
        self._regularized = {name for name, value in zip(agents, regularized.tolist(), strict=True) if value}

    def has_gradient(self, turn: Turn) -> bool:
        """Whether the turn has a gradient: without an advantage only a KL or an entropy bonus gives it one."""
        return bool(turn.advantage) or turn.agent in self._regularized

    def denominator(self, turns: Sequence[Turn]) -> float:
        """What the losses of a mini-batch's tokens are divided by."""
        if self.aggregate == "token_mean":
            return float(sum(len(turn.response_ids) for turn in turns))
        return float(len(turns) * (self.length if self.algorithm.constant_length else 1))

    def loss(
        self,
        batch: MicroBatch,
        where: slice,
        logits: Tensor,
        old_logprobs: Tensor | None,
        ref_logprobs: Tensor | None,
        denominator: float,
    ) -> tuple[Tensor, Sums]:
        """The part of its mini-batch's loss that some tokens of a micro-batch make, with gradient, and the sums over them.
        `logits` (n, V) are at the turns' temperatures, the log-probabilities (N,) of all tokens of the micro-batch; without
        `old_logprobs` this very pass is the old policy."""
        logprobs = losses.token_logprobs(logits, batch.tokens[where])
        with torch.set_grad_enabled(self.needs_entropy):
            entropy = losses.token_entropy(logits)
        old = logprobs.detach() if old_logprobs is None else old_logprobs[where]
        reference = None if ref_logprobs is None else ref_logprobs[where]
        engine = batch.logprobs[where]
        clip_low, clip_high, kl, bonus, weight = self._coefficients(batch)[:, batch.owners[where]]
        tokens = losses.token_losses(
            logprobs,
            old,
            batch.advantages[where],
            clip_low=clip_low,
            clip_high=clip_high,
            engine_logprobs=engine,
            tis=self.tis,
            entropy=entropy if self.needs_entropy else None,
            entropy_coefficient=bonus,
            ref_logprobs=reference,
            kl_coefficient=kl,
            kl_estimator=self.algorithm.kl_estimator,
            weight=weight,
        )
        loss = tokens.loss.sum() / denominator
        with torch.no_grad():
            gap = (old - engine).abs()
            divergence = gap.new_zeros(1) if reference is None else losses.kl(logprobs, reference, "k1")
            figures = {
                "loss": loss,
                "clipped": tokens.clipped.sum(),
                "approx_kl": tokens.approx_kl.sum(),
                "entropy": entropy.sum(),
                "kl": divergence.sum(),
                "gap": gap.sum(),
                "gap_max": gap.max(),
            }
            numbers = dict(zip(figures, torch.stack([*figures.values()]).tolist(), strict=True))
            finite = math.isfinite(numbers["loss"])
            bad = [] if finite else batch.turns_of(batch.owners[where][~tokens.loss.isfinite()])
        return loss, Sums(tokens=len(gap), bad=tuple(bad), **numbers)

    def _coefficients(self, batch: MicroBatch) -> Tensor:
        """The settings of every turn's agent, (5, B), with the weight of one token for the last of them."""
        values = self.table[[self.codes[turn.agent] for turn in batch.turns]].T
        if self.aggregate == "sequence_mean_token_mean":
            lengths = torch.tensor([len(turn.response_ids) for turn in batch.turns], device=values.device)
            values = torch.cat([values[:-1], values[-1:] / lengths])
        return values

    def _column(self, name: str) -> Tensor:
        return self.table[:, COEFFICIENTS.index(name)]


def _coefficient(name: str, loss: settings.Loss, algorithm: Algorithm) -> float:
    """The agent's own value, or the algorithm's where it has none."""
    own: float | None = getattr(loss, name)
    return float(getattr(algorithm, name)) if own is None else own

"""From logits to tokens for a whole batch whose rows sample differently.

The draws are fixed before generation starts: every request's seed gives its uniform numbers, one per token, and a token is the
point where the row's cumulative distribution passes its number. So what a request draws does not depend on the others.

Axes: B rows, V vocabulary, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from drmas_dsl.graph.settings import Sampling


def draws(seeds: Sequence[int], length: int, device: torch.device) -> torch.Tensor:
    """Uniform numbers in [0, 1), float64 [B, length]; row b depends on seeds[b] alone."""
    rows = [np.random.Generator(np.random.Philox(key=seed % 2**128)).random(length) for seed in seeds]
    return torch.from_numpy(np.stack(rows)).to(device)


@dataclass(frozen=True, slots=True)
class Sampler:
    """How each row samples, as tensors [B]. `filtered`: some row has top_k, top_p or min_p."""

    temperature: torch.Tensor  # 1 where greedy
    greedy: torch.Tensor
    top_k: torch.Tensor  # V where off
    top_p: torch.Tensor
    min_p: torch.Tensor
    filtered: bool
    any_greedy: bool

    @classmethod
    def of(cls, settings: Sequence[Sampling], vocabulary: int, device: torch.device) -> Sampler:
        """One row per setting."""

        def column(values: Sequence[float]) -> torch.Tensor:
            return torch.tensor(values, device=device)

        greedy = [s.temperature == 0 for s in settings]
        return cls(
            temperature=column([s.temperature or 1.0 for s in settings]),
            greedy=column(greedy),
            top_k=column([min(s.top_k or vocabulary, vocabulary) for s in settings]),
            top_p=column([s.top_p for s in settings]),
            min_p=column([s.min_p for s in settings]),
            filtered=any(s.top_k or s.top_p < 1 or s.min_p for s in settings),
            any_greedy=any(greedy),
        )

    def rows(self, keep: torch.Tensor) -> Sampler:
        """Only the rows that `keep` [b] names."""
        columns = ("temperature", "greedy", "top_k", "top_p", "min_p")
        return replace(self, **{name: getattr(self, name)[keep] for name in columns})

    def sample(self, logits: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [B] and their log-probabilities [B] under the distribution that they were drawn from.

        A greedy row takes its likeliest token and reports it under temperature 1, unfiltered: under its own distribution
        it would be 0 for every token.

        Args:
            logits: [B, V], any float type.
            uniform: float64 [B].
        """
        plain = torch.log_softmax(logits.float() / self.temperature[:, None], dim=-1)
        logp = self._filter(plain) if self.filtered else plain
        cumulative = logp.exp().cumsum(-1, dtype=torch.float64)
        total = cumulative[:, -1]
        below = torch.nextafter(total, torch.zeros_like(total))  # rounding must not lift a draw to the total
        target = torch.minimum(uniform * total, below)[:, None]
        tokens = torch.searchsorted(cumulative, target, right=True).squeeze(1)  # right: never one of probability 0
        if self.any_greedy:
            tokens = torch.where(self.greedy, plain.argmax(-1), tokens)
            logp = torch.where(self.greedy[:, None], plain, logp)
        return tokens, logp.gather(1, tokens[:, None]).squeeze(1)

    def _filter(self, logp: torch.Tensor) -> torch.Tensor:
        """Log-probabilities after top_k, then top_p, then min_p, renormalised."""
        ordered, order = logp.sort(dim=-1, descending=True, stable=True)
        rank = torch.arange(logp.shape[-1], device=logp.device)
        kept = rank < self.top_k[:, None]
        probability = torch.where(kept, ordered, -torch.inf).softmax(-1)
        before = probability.cumsum(-1) - probability
        kept &= (before < self.top_p[:, None]) & (probability >= self.min_p[:, None] * probability[:, :1])
        kept[:, 0] = True  # rounding must not empty a row
        ordered = torch.where(kept, ordered, -torch.inf)
        return torch.log_softmax(torch.empty_like(logp).scatter_(1, order, ordered), dim=-1)

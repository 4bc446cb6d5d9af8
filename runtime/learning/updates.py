"""What an update reports: sums over micro-batches, metrics of one step, and the error where updates keep failing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from drmas_dsl.errors import UserError
from runtime.records import Turn

NAMED = 4  # turns that a report of a bad update names at most


class BadUpdates(UserError):
    """Too many updates in a row had a loss or gradient that is not finite."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """Totals over the tokens of a mini-batch, or of a part of it; `gap_max` is the largest. `read` are the tokens of
    prompts, responses and padding; `bad` are turns whose loss is not finite, each once."""

    tokens: int = 0
    loss: float = 0.0
    clipped: float = 0.0
    approx_kl: float = 0.0
    entropy: float = 0.0
    kl: float = 0.0
    gap: float = 0.0
    gap_max: float = 0.0
    read: int = 0
    padding: int = 0
    bad: tuple[Turn, ...] = ()

    def __add__(self, other: Sums) -> Sums:
        """The sums over both."""
        names = [field.name for field in dataclasses.fields(Sums)]
        added = {name: getattr(self, name) + getattr(other, name) for name in names}
        new = tuple(turn for turn in other.bad if turn not in self.bad)
        return Sums(**added | {"gap_max": max(self.gap_max, other.gap_max), "bad": self.bad + new})


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateMetrics:
    """What one step did to a policy: counts over its mini-updates, means of the rest, `engine_logp_gap_max` the largest;
    NaN where nothing was measured.

    `grad_norm` is taken before clipping; `clip_share`, `entropy` (nats), `kl` (k1 against the frozen start) and
    `approx_kl` (k1 against the policy before the step) are means over tokens; `engine_logp_gap` is the distance of the
    learner's log-probabilities from the engine's; `padding_share` is the share of the tokens read that only filled up.
    `skipped` updates were not finite, because of the turns that `bad` names. `agent_grad_norm` is measured on demand.
    """

    weights_version: int
    turns: int = 0
    tokens: int = 0
    updates: int = 0
    skipped: int = 0
    loss: float = math.nan
    grad_norm: float = math.nan
    clip_share: float = math.nan
    entropy: float = math.nan
    kl: float = math.nan
    approx_kl: float = math.nan
    lr: float = math.nan
    engine_logp_gap_mean: float = math.nan
    engine_logp_gap_max: float = math.nan
    padding_share: float = math.nan
    agent_grad_norm: Mapping[str, float] = dataclasses.field(default_factory=dict)
    bad: tuple[str, ...] = ()

    @staticmethod
    def of(
        sums: Sums,
        *,
        turns: int,
        grad_norm: float,
        lr: float,
        reference: bool,
        norms: Mapping[str, float],
        bad: Sequence[Turn],
    ) -> UpdateMetrics:
        """Metrics of one mini-update; `reference`: there is a frozen start to measure the KL against."""
        return UpdateMetrics(
            weights_version=0,
            turns=turns,
            tokens=sums.tokens,
            updates=0 if bad else 1,
            skipped=1 if bad else 0,
            loss=sums.loss,
            grad_norm=grad_norm,
            clip_share=sums.clipped / sums.tokens,
            entropy=sums.entropy / sums.tokens,
            kl=sums.kl / sums.tokens if reference else math.nan,
            approx_kl=sums.approx_kl / sums.tokens,
            lr=lr,
            engine_logp_gap_mean=sums.gap / sums.tokens,
            engine_logp_gap_max=sums.gap_max,
            padding_share=sums.padding / sums.read,
            agent_grad_norm=norms,
            bad=(named(bad),) if bad else (),
        )


def merged(parts: Sequence[UpdateMetrics], version: int) -> UpdateMetrics:
    """Metrics of a step from those of its mini-updates: counts add up, figures are averaged over the updates that were
    made (over all where none was), maxima stay maxima."""
    made = [part for part in parts if part.updates] or parts

    def mean(name: str) -> float:
        return sum(float(getattr(part, name)) for part in made) / len(made)

    averaged = (
        "loss",
        "grad_norm",
        "clip_share",
        "entropy",
        "kl",
        "approx_kl",
        "lr",
        "engine_logp_gap_mean",
        "padding_share",
    )
    return UpdateMetrics(
        weights_version=version,
        turns=sum(part.turns for part in parts),
        tokens=sum(part.tokens for part in parts),
        updates=sum(part.updates for part in parts),
        skipped=sum(part.skipped for part in parts),
        engine_logp_gap_max=max(part.engine_logp_gap_max for part in parts),
        agent_grad_norm={
            agent: sum(part.agent_grad_norm[agent] for part in made) / len(made) for agent in made[0].agent_grad_norm
        },
        bad=tuple(name for part in parts for name in part.bad),
        **{name: mean(name) for name in averaged},
    )


def named(turns: Sequence[Turn]) -> str:
    """Turns by agent, step, trajectory and index, at most `NAMED` of them."""
    names = [f"{turn.agent} in step {turn.step}, trajectory {turn.trajectory}, turn {turn.index}" for turn in turns]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more

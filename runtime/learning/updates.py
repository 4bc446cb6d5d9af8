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


@dataclasses.dataclass(slots=True)
class Sums:
    """Totals over the tokens of a mini-batch, filled part by part; `read` are the tokens of prompts, responses and padding;
    `bad` are turns whose loss is not finite."""

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
    bad: list[Turn] = dataclasses.field(default_factory=list)

    def add(
        self,
        tokens: int,
        loss: float,
        clipped: float,
        approx_kl: float,
        entropy: float,
        kl: float,
        gap: float,
        gap_max: float,
    ) -> None:
        """Count some tokens with the totals over them."""
        self.tokens += tokens
        self.loss += loss
        self.clipped += clipped
        self.approx_kl += approx_kl
        self.entropy += entropy
        self.kl += kl
        self.gap += gap
        self.gap_max = max(self.gap_max, gap_max)


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateMetrics:
    """What one step did to a policy: means over its mini-updates; NaN where nothing was measured.

    `grad_norm` is taken before clipping; `clip_share`, `entropy` (nats), `kl` (k1 against the frozen start) and
    `approx_kl` (k1 against the policy before the step) are means over tokens; `engine_logp_gap` is the distance of the
    learner's log-probabilities from the engine's; `padding_share` is the share of the tokens read that only filled up. `skipped` updates were not finite, because of the turns that `bad`
    names. `agent_grad_norm` is measured on demand.
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


def added(parts: Sequence[Sums]) -> Sums:
    """The sums of all ranks in one."""
    totals = ("tokens", "loss", "clipped", "approx_kl", "entropy", "kl", "gap", "read", "padding")
    return Sums(
        **{name: sum(getattr(part, name) for part in parts) for name in totals},
        gap_max=max(part.gap_max for part in parts),
        bad=[turn for part in parts for turn in part.bad],
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

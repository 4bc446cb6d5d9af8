"""Advantages of turns: whose mean and deviation a turn is measured against, and what that does to each agent.

Arrays in, arrays out, NumPy alone and no Python loop over turns; `learning.credit` makes the arrays from records. Which
estimator an algorithm uses stands in `learning.algorithms`. The statistics are those of Dr. MAS (agent-wise) and GRPO
(trajectories); deviations are sample deviations (n - 1).

Legend: N turns, G groups (the trajectories of one question in one step), T trajectories, K agents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

EPS = 1e-6  # added to deviations; a deviation up to it counts as none


@dataclass(frozen=True)
class Scored:
    """N scored turns as arrays of shape (N,). Codes count from 0 without large gaps.

    `step`, `group`, `trajectory` and `agent` say where a turn belongs (groups and trajectories of different steps have
    different codes); `trained` is False for turns of frozen agents, which are in no statistic and get 0; `shrunk` is
    True where the turn's group lost trajectories to failures.
    """

    step: Codes
    group: Codes
    trajectory: Codes
    agent: Codes
    score: Floats
    trained: Flags
    shrunk: Flags

    @cached_property
    def values(self) -> Trajectories:
        """The trajectories' values, groups and presence, shape (T,)."""
        size = _size(self.trajectory)
        count, mean, _ = _moments(self.trajectory[self.trained], self.score[self.trained], size)
        group = np.zeros(size, np.int64)
        group[self.trajectory] = self.group
        return Trajectories(mean, group, count > 0)


class Trajectories(NamedTuple):
    """The mean of each trajectory's trained turns' scores, its group, and whether it has a trained turn."""

    value: Floats
    group: Codes
    present: Flags


@dataclass(frozen=True, slots=True)
class Normalization:
    """Whose mean and deviation: `agent`, `trajectory` or `turn`, and `none` for no division. `whole`: the trajectory's
    value stands in for the turn's own score."""

    mean: str
    std: str
    whole: bool = False


NORMALIZATIONS: Mapping[str, Normalization] = {
    "agent": Normalization("agent", "agent"),
    "agent_mean": Normalization("agent", "trajectory"),
    "agent_std": Normalization("trajectory", "agent"),
    "turn": Normalization("turn", "turn"),
    "trajectory": Normalization("trajectory", "trajectory", whole=True),
}


def normalization(call: Call) -> Normalization:
    """The normalisation that a setting `train.normalize` names.

    Raises:
        UserError: there is none of that name, or of those arguments.
    """
    if call.function == "stats":
        mean, std = call.args.get("mean"), call.args.get("std")
        if mean in ("agent", "trajectory", "turn") and std in ("agent", "trajectory", "turn", "none"):
            return Normalization(mean, std)
        raise UserError(
            f"stats(mean = {mean}, std = {std}) is no normalisation",
            "mean is agent, trajectory or turn; std is one of them or none",
        )
    if call.function not in NORMALIZATIONS:
        raise UserError(
            f"there is no normalisation `{call.function}`",
            f"use {', '.join(NORMALIZATIONS)} or stats(mean = …, std = …)",
        )
    if call.args:
        raise UserError(f"the normalisation `{call.function}` takes no arguments", "stats(mean = …, std = …) does")
    return NORMALIZATIONS[call.function]


class Statistics(NamedTuple):
    """Of the set that each turn belongs to, as arrays of shape (N,). `own` is the turn's member of the set: its score,
    or its trajectory's value. The deviation is 0 where `size` is below 2."""

    size: Codes
    mean: Floats
    deviation: Floats
    own: Floats


def statistics(turns: Scored, axis: str) -> Statistics:
    """Statistics of the turn's set: the group's turns of its agent (`agent`), all turns of its group (`turn`), or the
    values of its group's trajectories (`trajectory`). Only trained turns are members."""
    if axis == "trajectory":
        value, group, present = turns.values
        size, mean, deviation = _moments(group[present], value[present], _size(turns.group))
        sets, own = turns.group, value[turns.trajectory]
    else:
        agents = _size(turns.agent) if axis == "agent" else 1
        sets, own = turns.group * agents + (turns.agent if axis == "agent" else 0), turns.score
        size, mean, deviation = _moments(sets[turns.trained], own[turns.trained], _size(turns.group) * agents)
    return Statistics(size[sets], mean[sets], deviation[sets], own)


def group_relative(turns: Scored, norm: Normalization, lone: str = "raw") -> Floats:
    """(x - mean) / (deviation + eps), shape (N,); 0 where the deviation vanishes and for turns that are not trained.

    A set of one has no statistics: `lone = "raw"` takes mean 0 and deviation 1, `"drop"` gives 0; where failures shrank
    the group to one trajectory it is always 0.
    """
    centre = statistics(turns, norm.mean)
    x = _signal(turns, norm)
    kept = _kept(turns, centre, lone)
    advantage = x - np.where(centre.size > 1, centre.mean, 0.0)
    if norm.std != "none":
        spread = centre if norm.std == norm.mean else statistics(turns, norm.std)
        kept &= _kept(turns, spread, lone)
        scale = np.where(spread.size > 1, spread.deviation, 1.0)
        kept &= scale > EPS
        advantage = advantage / (scale + EPS)
    return np.where(kept, advantage, 0.0)


def leave_one_out(turns: Scored, norm: Normalization, lone: str = "raw") -> Floats:
    """x minus the mean of the others in the same set, shape (N,); the deviation of `norm` plays no part."""
    centre = statistics(turns, norm.mean)
    n = centre.size
    # The mean of the others is own + (mean - own) n / (n - 1): exact where all members are equal.
    others = centre.own + (centre.mean - centre.own) * (n / np.maximum(n - 1, 1))
    advantage = _signal(turns, norm) - np.where(n > 1, others, 0.0)
    return np.where(_kept(turns, centre, lone), advantage, 0.0)


def batch_relative(turns: Scored, norm: Normalization, lone: str = "raw") -> Floats:
    """x minus the mean of its set in the group, then normalised over the whole step by the mean and deviation that
    `norm.std` names (REINFORCE++ with a group baseline)."""
    centred = group_relative(turns, dataclasses.replace(norm, std="none"), lone)
    if norm.std == "none":
        return centred
    kept = _kept(turns, statistics(turns, norm.mean), lone)
    step = dataclasses.replace(turns, group=turns.step, score=centred, trained=kept, shrunk=np.zeros_like(turns.shrunk))
    return group_relative(step, Normalization(norm.std, norm.std, norm.whole), lone)


def _signal(turns: Scored, norm: Normalization) -> Floats:
    """What is normalised: the trajectory's value, or the turn's own score."""
    return turns.values.value[turns.trajectory] if norm.whole else turns.score


def _kept(turns: Scored, sets: Statistics, lone: str) -> Flags:
    """Which turns keep an advantage, as far as their sets' sizes decide."""
    enough = sets.size > 1 if lone == "drop" else sets.size > 0
    if not turns.shrunk.any():
        return turns.trained & enough
    _, group, present = turns.values
    members = np.bincount(group[present], minlength=_size(turns.group))[turns.group]
    return turns.trained & enough & ~(turns.shrunk & (members == 1))


def _moments(sets: Codes, values: Floats, size: int) -> tuple[Codes, Floats, Floats]:
    """Count, mean and sample deviation of each of `size` sets.

    Sums run over the distances to one member of the set, so that a set of equal values has exactly that mean and a
    deviation of exactly 0.
    """
    count = np.bincount(sets, minlength=size)
    origin = np.zeros(size)
    origin[sets] = values
    mean = np.bincount(sets, values - origin[sets], size) / np.maximum(count, 1) + origin
    squares = np.bincount(sets, (values - mean[sets]) ** 2, size)
    return count, mean, np.sqrt(squares / np.maximum(count - 1, 1))


def _size(codes: Codes) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


class AgentStatistics(NamedTuple):
    """What one agent's turns look like to the statistics, whatever normalisation is in use.

    `inflation` is (sigma_k^2 + (mu_k - mu)^2) / sigma^2 with population variances against the trajectories' statistics,
    averaged over the groups with sigma > 0 by the agent's turns there (NaN without such a group): by this factor the
    second moment of the agent's gradient grows under trajectory statistics. `lone_share` is the share of its turns that
    are alone in their group, `zero_variance_share` that of turns among several with equal scores.
    """

    inflation: float
    lone_share: float
    zero_variance_share: float


def agent_statistics(turns: Scored) -> list[AgentStatistics]:
    """For each agent code; all NaN where the agent has no trained turn."""
    agents = _size(turns.agent)
    own, common = statistics(turns, "agent"), statistics(turns, "trajectory")
    informative = turns.trained & (common.size > 1) & (common.deviation > EPS)
    variance = np.where(informative, common.deviation**2 * (common.size - 1) / np.maximum(common.size, 1), 1.0)
    lone = turns.trained & (own.size == 1)
    flat = turns.trained & (own.size > 1) & (own.deviation <= EPS)

    def share(part: Flags | Floats, whole: Flags) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.bincount(turns.agent, part, agents) / np.bincount(turns.agent, whole, agents)

    # Over an agent's turns of a group, the mean of (score - mu)^2 is sigma_k^2 + (mu_k - mu)^2.
    inflation = share(informative * (turns.score - common.mean) ** 2 / variance, informative)
    columns = (inflation, share(lone, turns.trained), share(flat, turns.trained))
    return [AgentStatistics(*map(float, row)) for row in zip(*columns, strict=True)]

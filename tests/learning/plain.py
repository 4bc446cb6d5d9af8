"""The maths once more, as plain loops that follow the definitions word by word: what the tests compare with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev

EPS = 1e-6


@dataclass(frozen=True)
class Scored:
    """One turn."""

    question: str
    trajectory: str
    agent: str
    score: float
    trained: bool = True
    shrunk: bool = False


def advantage(turns: Sequence[Scored], one: Scored, mean: str, std: str, whole: bool, lone: str) -> float:
    """A of one turn."""
    group = [turn for turn in turns if turn.question == one.question and turn.trained]
    if not one.trained:
        return 0.0
    if one.shrunk and len({turn.trajectory for turn in group}) == 1:
        return 0.0
    x = value(group, one.trajectory) if whole else one.score
    centre, _ = moments(members(group, one, mean), lone)
    if centre is None:
        return 0.0
    if std == "none":
        return x - centre
    _, deviation = moments(members(group, one, std), lone)
    if deviation is None or deviation <= EPS:
        return 0.0
    return (x - centre) / (deviation + EPS)


def moments(values: Sequence[float], lone: str) -> tuple[float | None, float | None]:
    """Mean and sample deviation; none of both where a set of one is dropped."""
    if len(values) == 1:
        return (0.0, 1.0) if lone == "raw" else (None, None)
    return fmean(values), stdev(values)


def members(group: Sequence[Scored], one: Scored, axis: str) -> list[float]:
    """The set that `one` belongs to."""
    if axis == "trajectory":
        return [value(group, name) for name in {turn.trajectory: None for turn in group}]
    return [turn.score for turn in group if axis == "turn" or turn.agent == one.agent]


def value(group: Sequence[Scored], trajectory: str) -> float:
    """A trajectory's value."""
    return fmean(turn.score for turn in group if turn.trajectory == trajectory)


def leave_one_out(turns: Sequence[Scored], one: Scored, lone: str) -> float:
    """x minus the mean of the agent's other turns in the group."""
    others = [
        turn.score for turn in turns if turn is not one and (turn.question, turn.agent) == (one.question, one.agent)
    ]
    if not others:
        return one.score if lone == "raw" else 0.0
    return one.score - fmean(others)


def inflation(turns: Sequence[Scored], agent: str) -> float:
    """(sigma_k^2 + (mu_k - mu)^2) / sigma^2, averaged over groups by the agent's turns."""
    total, weight = 0.0, 0
    for question in {turn.question for turn in turns}:
        group = [turn for turn in turns if turn.question == question and turn.trained]
        own = [turn.score for turn in group if turn.agent == agent]
        values = [value(group, name) for name in {turn.trajectory for turn in group}]
        if not own or pstdev(values) <= EPS:
            continue
        ratio = (pstdev(own) ** 2 + (fmean(own) - fmean(values)) ** 2) / pstdev(values) ** 2
        total, weight = total + ratio * len(own), weight + len(own)
    return total / weight if weight else math.nan

"""From recorded turns to turns with advantages: the arrays in between, and the figures of each agent.

What a score is has been decided before (`Turn.score`); how scores are normalised stands in `learning.advantages`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from drmas_dsl.graph.settings import Train
from runtime.learning.advantages import AgentStatistics, Codes, Floats, Scored, agent_statistics, normalization
from runtime.learning.algorithms import from_call
from runtime.records import Turn

Group = tuple[int, str]  # (step, question)
Name = TypeVar("Name", bound=Hashable)


def scored(
    *,
    steps: Sequence[int],
    questions: Sequence[str],
    trajectories: Sequence[str],
    agents: Sequence[str],
    scores: Sequence[float],
    frozen: Collection[str] = (),
    shrunk: Collection[Group] = (),
) -> tuple[Scored, list[str]]:
    """Columns of turns as arrays, and the agents' names by their codes. `frozen` agents are in no statistic; `shrunk` groups
    lost trajectories to failures."""
    groups = list(zip(steps, questions, strict=True))
    agent_codes, names = _codes(agents)
    group_codes, group_names = _codes(groups)
    lost = np.array([group in shrunk for group in group_names], bool)
    still = np.array([name in frozen for name in names], bool)
    turns = Scored(
        step=_codes(steps)[0],
        group=group_codes,
        trajectory=_codes(zip(groups, trajectories, strict=True))[0],
        agent=agent_codes,
        score=np.array(scores, np.float64),
        trained=~still[agent_codes],
        shrunk=lost[group_codes],
    )
    return turns, names


def estimate(turns: Scored, train: Train) -> Floats:
    """Advantages under the run's algorithm, `normalize` and `lone`."""
    return from_call(train.algorithm).estimate(turns, normalization(train.normalize), train.lone)


def credit(
    train: Train, frozen: Collection[str], shrunk: Collection[Group], **columns: Any
) -> tuple[list[float], dict[str, AgentStatistics]]:
    """The advantages of turns whose `columns` are those of `scored`, in order, and the statistics of every agent that trains."""
    turns, names = scored(**columns, frozen=frozen, shrunk=shrunk)
    statistics = zip(names, agent_statistics(turns), strict=True)
    return estimate(turns, train).tolist(), {name: figures for name, figures in statistics if name not in frozen}


def assign(
    turns: Sequence[Turn], train: Train, frozen: Collection[str] = (), shrunk: Collection[Group] = ()
) -> tuple[list[Turn], dict[str, AgentStatistics]]:
    """The turns with their advantages, in order, and the statistics of every agent among them that trains.

    The turns are those of trajectories that did not fail, all with a score.
    """
    advantages, statistics = credit(
        train,
        frozen,
        shrunk,
        steps=[turn.step for turn in turns],
        questions=[turn.question for turn in turns],
        trajectories=[turn.trajectory for turn in turns],
        agents=[turn.agent for turn in turns],
        scores=[_score(turn) for turn in turns],
    )
    pairs = zip(turns, advantages, strict=True)
    return [dataclasses.replace(turn, advantage=advantage) for turn, advantage in pairs], statistics


def uninformative(turns: Iterable[Turn]) -> set[Group]:
    """The groups in which no turn has an advantage: what dynamic sampling replaces."""
    silent: dict[Group, bool] = {}
    for turn in turns:
        group = (turn.step, turn.question)
        silent[group] = silent.get(group, True) and not turn.advantage
    return {group for group, empty in silent.items() if empty}


def _score(turn: Turn) -> float:
    if turn.score is None:
        raise ValueError(f"turn {turn.index} of trajectory {turn.trajectory} has no score")
    return turn.score


def _codes(names: Iterable[Name]) -> tuple[Codes, list[Name]]:
    """Names as numbers from 0 in order of appearance, and the names by number."""
    known: dict[Name, int] = {}
    codes = [known.setdefault(name, len(known)) for name in names]
    return np.array(codes, np.int64), list(known)

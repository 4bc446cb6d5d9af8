"""Evaluation: how often a team solves its questions, and what each agent costs per question.

Success is `task.success` without penalties; a failed trajectory counts as not solved. Estimates are in `estimates`; this module
rolls the datasets out, counts, and lays the results out as tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import Eval, Price, System
from runtime.data import load_rows
from runtime.datasets.files import Row
from runtime.estimates import Estimate, avg_at_k, estimate, pass_at_k
from runtime.progress import number
from runtime.records import Trajectory
from runtime.team import Team

TRAJECTORIES_AT_ONCE = 512
PER_MILLION = 1e-6


@dataclass(frozen=True, slots=True)
class Usage:
    """What an agent does for one question, on average over trajectories. `cost` is in the unit of `model.price`."""

    calls: float
    prompt_tokens: float
    response_tokens: float
    seconds: float
    cost: float


@dataclass(frozen=True, slots=True)
class DatasetResult:
    """The figures of one dataset."""

    questions: int
    samples: int
    failed: int
    avg: Mapping[int, Estimate]
    passed: Mapping[int, Estimate]
    usage: Mapping[str, Usage]


def check_eval(system: System) -> None:
    """Raises UserError where `eval` cannot be met."""
    if max(system.eval.k) > system.eval.samples:
        raise UserError(
            f"eval.k asks for {max(system.eval.k)} samples of a question and eval.samples is {system.eval.samples}",
            f"set eval.samples to {max(system.eval.k)} or more",
        )


def test_rows(system: System) -> dict[str, Sequence[Row]]:
    """The questions of every test dataset by name.

    Raises:
        UserError: there are none, or they cannot be read.
    """
    if not system.task.test:
        raise UserError(f"system {system.name} has no questions to evaluate on", "set task.test")
    datasets = system.task.test.items()
    return {name: load_rows(call, system.base, system.plugins)[: system.eval.limit] for name, call in datasets}


async def evaluate(
    graph: nx.MultiDiGraph, team: Team, step: int = 0
) -> tuple[dict[str, DatasetResult], list[Trajectory]]:
    """Every test dataset by name, with `name/value` for each value of the column that `eval.split` names, and all the
    trajectories, in order of question and sample.

    Raises:
        UserError: there is nothing to evaluate on.
    """
    system = system_of(graph)
    check_eval(system)
    results, seen = {}, []
    for name, rows in test_rows(system).items():
        trajectories = []
        for part in _parts(rows, max(1, TRAJECTORIES_AT_ONCE // system.eval.samples)):
            trajectories += await team.rollout(graph, part, step=step, group_size=system.eval.samples, evaluation=True)
        results[name] = summarise(system, trajectories)
        results |= {f"{name}/{value}": summarise(system, part) for value, part in split(system, trajectories).items()}
        seen += trajectories
    if (column := system.eval.split) not in (None, Eval().split) and all(column not in t.row for t in seen):
        raise UserError(f"no test dataset has the column {column!r} of eval.split")
    return results, seen


def split(system: System, trajectories: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
    """A dataset's trajectories by the column that `eval.split` names, where it has several values; rows without one are in
    no part."""
    parts: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        value = None if system.eval.split is None else trajectory.row.get(system.eval.split)
        if value is not None:
            parts.setdefault(str(value), []).append(trajectory)
    return parts if len(parts) > 1 else {}


def _parts(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def summarise(system: System, trajectories: Sequence[Trajectory]) -> DatasetResult:
    """Estimates and usage of one dataset's trajectories (samples of a question stand together)."""
    samples = system.eval.samples
    questions = len(trajectories) // samples
    solved = np.array([t.success and t.failed is None for t in trajectories], dtype=bool).reshape(questions, samples)
    return DatasetResult(
        questions,
        samples,
        sum(t.failed is not None for t in trajectories),
        {k: estimate(avg_at_k(solved, k)) for k in system.eval.k},
        {k: estimate(pass_at_k(solved, k)) for k in system.eval.k},
        {agent: _usage(agent, system.models[spec.model].price, trajectories) for agent, spec in system.agents.items()},
    )


def _usage(agent: str, price: Price, trajectories: Sequence[Trajectory]) -> Usage:
    turns = [turn for trajectory in trajectories for turn in trajectory.turns if turn.agent == agent]
    count = max(1, len(trajectories))
    prompt = sum(turn.tokens[0] for turn in turns) / count
    response = sum(turn.tokens[1] for turn in turns) / count
    cost = (prompt * price.prompt + response * price.response) * PER_MILLION
    return Usage(len(turns) / count, prompt, response, sum(turn.seconds for turn in turns) / count, cost)


def overall(system: System, results: Mapping[str, DatasetResult]) -> float:
    """What checkpoints are compared by: avg@k at the first k of `eval.k`, averaged over the test datasets."""
    return fmean(results[name].avg[system.eval.k[0]].value for name in system.task.test)


def results_record(results: Mapping[str, DatasetResult]) -> dict[str, Any]:
    """The results as plain data, for JSON."""
    return {name: dataclasses.asdict(result) for name, result in results.items()}


def print_results(console: Console, system: System, results: Mapping[str, DatasetResult]) -> None:
    """A table of the datasets and a table of what each agent does per question."""
    ks = system.eval.k
    scores = Table(
        Column("dataset", no_wrap=True),
        "questions",
        "failed",
        *(f"avg@{k}" for k in ks),
        *(f"pass@{k}" for k in ks),
        box=SIMPLE_HEAD,
    )
    for name, result in results.items():
        figures = [_interval(result.avg[k]) for k in ks] + [_interval(result.passed[k]) for k in ks]
        scores.add_row(name, str(result.questions), str(result.failed), *figures)
    console.print(scores)
    priced = any(model.price != Price() for model in system.models.values())
    usage = Table(
        Column("dataset", no_wrap=True),
        "agent",
        "calls",
        "prompt tokens",
        "response tokens",
        "seconds",
        *(["cost"] if priced else []),
        box=SIMPLE_HEAD,
    )
    for name, result in results.items():
        for agent, use in result.usage.items():
            amounts = [use.calls, use.prompt_tokens, use.response_tokens, use.seconds, *([use.cost] if priced else [])]
            usage.add_row(name, agent, *map(number, amounts))
    console.print("Per question, agent by agent:")
    console.print(usage)


def _interval(value: Estimate) -> str:
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"

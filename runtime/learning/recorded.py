"""Turns as they were recorded, in a file or a run's rollouts, and their advantages under other settings.

What `drmasc advantages` prints. No torch here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.serialize import from_json
from drmas_dsl.graph.settings import Train
from runtime.learning.advantages import AgentStatistics
from runtime.learning.credit import Group, credit

Row = dict[str, Any]  # step, question, trajectory, agent, score; later also advantage


@dataclass(frozen=True, slots=True)
class Recorded:
    """Turns in order, the settings they were trained with, the agents in no statistic, and the groups that lost
    trajectories to failures."""

    rows: tuple[Row, ...]
    train: Train
    frozen: frozenset[str] = frozenset()
    shrunk: frozenset[Group] = frozenset()


def read(path: Path) -> Recorded:
    """The turns of a JSONL file, or of all rollouts of a run folder.

    Raises:
        UserError: there are none, or a line is not what it should be (the message names file and line).
    """
    if path.is_dir():
        return _read_run(path)
    rows = [_turn(row, place) | _step(row, place) for place, row in _lines(path)]
    if not rows:
        raise UserError(f"{path} holds no turns", "one JSON object a line: question, trajectory, agent, score")
    return Recorded(tuple(rows), Train())


def recompute(recorded: Recorded) -> tuple[list[Row], dict[str, AgentStatistics]]:
    """The rows with their `advantage`, in order, and the statistics of every agent that trains.

    Raises:
        UserError: there is no such normalisation or algorithm.
    """
    rows = recorded.rows
    advantages, statistics = credit(
        recorded.train,
        recorded.frozen,
        recorded.shrunk,
        steps=[row.get("step", 0) for row in rows],
        questions=[row["question"] for row in rows],
        trajectories=[row["trajectory"] for row in rows],
        agents=[row["agent"] for row in rows],
        scores=[row["score"] for row in rows],
    )
    return [row | {"advantage": advantage} for row, advantage in zip(rows, advantages, strict=True)], statistics


def table(rows: Sequence[Row], figures: Mapping[str, AgentStatistics]) -> str:
    """The agents' figures as aligned text; what cannot be measured is a dash."""
    head: tuple[str, ...] = (
        "agent",
        "turns",
        "score",
        "advantage",
        "max |advantage|",
        "inflation",
        "lone",
        "no variance",
    )
    lines = [head]
    for agent, (inflation, lone, flat) in figures.items():
        own = [row for row in rows if row["agent"] == agent]
        advantages = [row["advantage"] for row in own]
        mean_score = sum(row["score"] for row in own) / len(own)
        numbers = (mean_score, sum(advantages) / len(own), max(map(abs, advantages)), inflation)
        shares = (f"{share:.0%}" for share in (lone, flat))
        lines.append(
            (agent, str(len(own)), *(f"{round(n, 3) + 0.0:.3f}" if math.isfinite(n) else "-" for n in numbers), *shares)
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = (
        (line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)))
        for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in aligned)


def _read_run(folder: Path) -> Recorded:
    files = sorted((folder / "rollouts").glob("step-*.jsonl"))
    if not files:
        raise UserError(
            f"{folder} holds no rollouts", "name a run folder with rollouts/step-*.jsonl, or a file of turns"
        )
    try:
        system = system_of(from_json((folder / "graph.json").read_text(encoding="utf-8"), str(folder)))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {folder / 'graph.json'}: {reason}", "name the folder of a run") from error
    rows: list[Row] = []
    shrunk: set[Group] = set()
    for path in files:
        for place, trajectory in _lines(path):
            if trajectory.get("failed") is not None:
                shrunk.add((trajectory.get("step", 0), str(trajectory.get("question"))))
                continue
            events = trajectory.get("events")
            if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
                raise UserError(f"{place}: this line is no trajectory: it has no `events`", "was the file edited?")
            turns = [event for event in events if event.get("kind") == "turn"]
            rows += [_turn(turn, place) | _step(turn, place) for turn in turns]
    if not rows:
        raise UserError(f"{folder} holds no turns: every trajectory of it failed", "name a run that has trained")
    frozen = frozenset(name for name, agent in system.agents.items() if agent.frozen)
    return Recorded(tuple(rows), system.train, frozen, frozenset(shrunk))


def _lines(path: Path) -> Iterator[tuple[str, Row]]:
    """(file:line, object) of each line that is not empty."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", "name a JSONL file of turns, or a run folder"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text", "name a JSONL file of turns, or a run folder") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{place}: this line is not JSON: {error.msg} (column {error.colno})") from error
        if not isinstance(row, dict):
            raise UserError(
                f"{place}: this line is not a JSON object", "one object a line: question, trajectory, agent, score"
            )
        yield place, row


def _turn(row: Row, place: str) -> Row:
    for name in ("question", "trajectory", "agent", "score"):
        if row.get(name) is None:
            raise UserError(f"{place}: `{name}` is missing", "a turn has question, trajectory, agent and score")
    for name in ("question", "trajectory", "agent"):
        if not isinstance(row[name], str):
            raise UserError(f"{place}: `{name}` is not a text", f"write {json.dumps(str(row[name]))}")
    score = row["score"]
    if not isinstance(score, (int, float)) or isinstance(score, bool) or not math.isfinite(score):
        raise UserError(f"{place}: `score` is {score!r}, not a finite number")
    return {name: row[name] for name in ("question", "trajectory", "agent", "score")}


def _step(row: Row, place: str) -> Row:
    if "step" not in row:
        return {}
    if not isinstance(row["step"], int) or isinstance(row["step"], bool):
        raise UserError(f"{place}: `step` is {row['step']!r}, not a whole number")
    return {"step": row["step"]}

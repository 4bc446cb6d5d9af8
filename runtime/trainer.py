"""The outer loop, readable from top to bottom: roll out, score, normalise, learn, sync, write.

It decides nothing about how any of these is done: `rollout` walks the graph, `learning` has the maths, `team` the actors.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import networkx as nx
from rich.console import Console

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from runtime.data import QuestionSampler, load_rows
from runtime.evaluate import check_eval, evaluate, results_record
from runtime.interrupt import Interrupted, interruptible, unless
from runtime.learning.algorithms import from_call
from runtime.metrics import MetricsWriter
from runtime.progress import progress
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout
from runtime.runfolder import RunFolder, write_trajectories
from runtime.scoring import Step, score, step_metrics
from runtime.team import Team, open_team


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the last finished step, and whether the user stopped it."""

    step: int
    interrupted: bool


async def train(graph: nx.MultiDiGraph, folder: RunFolder, console: Console, resume: bool = False) -> Outcome:
    """Train the system of `graph` into `folder`; with `resume`, from its last checkpoint on.

    Raises:
        UserError: what the system asks for cannot be had, or training went bad (the message says which).
    """
    system = system_of(graph)
    if system.task.train is None:
        raise UserError(
            f"system {system.name} has no questions to train on", 'set task.train, e.g. dataset("rows.jsonl")'
        )
    check_eval(system)
    sampler = QuestionSampler(
        load_rows(system.task.train, system.base, system.plugins), system.train.batch_size, system.train.seed
    )
    start, checkpoint = (folder.last_checkpoint() if resume else None) or (0, None)
    console.print(f"Starting {system.name} ...", highlight=False)
    async with open_team(system, checkpoint) as team, interruptible() as stop:
        with (
            MetricsWriter(folder.metrics, folder.tensorboard) as writer,
            progress(console, system.name, system.train.steps, start) as show,
        ):
            done = start
            for step in range(start + 1, system.train.steps + 1):
                try:
                    metrics, rolled = await train_step(graph, team, sampler, step, stop)
                except Interrupted:
                    break
                done = step
                write_trajectories(folder.rollouts(step), rolled.trajectories)
                if _every(system.train.eval_every, step):
                    results, _ = await evaluate(graph, team, step)
                    metrics["eval"] = results_record(results)
                writer.write(step, metrics)
                show(step, metrics)
                if stop.is_set():
                    break
                if _every(system.train.save_every, step) and step < system.train.steps:
                    await team.save(folder.checkpoint(step))
        if done > start:
            await team.save(folder.checkpoint(done))
        return Outcome(done, stop.is_set())


def _every(interval: int, step: int) -> bool:
    return interval > 0 and step % interval == 0


async def train_step(
    graph: nx.MultiDiGraph, team: Team, sampler: QuestionSampler, number: int, stop: asyncio.Event
) -> tuple[dict[str, Any], Step]:
    """Step `number`: a rollout and the updates from it; its metrics and what was rolled out.

    Raises:
        Interrupted: `stop` was set during the rollout; nothing was learned from it.
    """
    system = system_of(graph)
    started = time.perf_counter()
    step = await unless(stop, collect(graph, team, sampler, number))
    rolled = time.perf_counter()
    policies = await team.update(step.turns)
    learned = time.perf_counter()
    gaps = await team.sync({policy: figures.weights_version for policy, figures in policies.items()})
    seconds = {"rollout": rolled - started, "learn": learned - rolled, "sync": time.perf_counter() - learned}
    figures = {name: dataclasses.asdict(update) | {"sync_gap": gaps.get(name)} for name, update in policies.items()}
    return step_metrics(system, step, figures, seconds), step


async def collect(graph: nx.MultiDiGraph, team: Team, sampler: QuestionSampler, number: int) -> Step:
    """Roll a step out and score it. Where the algorithm resamples (DAPO), questions whose group has no advantage are
    replaced by further ones, as often as it says."""
    system = system_of(graph)
    train = system.train
    rows, trajectories = sampler.batch(number - 1), list[Trajectory]()
    for attempt in range(1, from_call(train.algorithm).resample + 2):
        trajectories += await rollout(
            graph,
            rows,
            step=number,
            group_size=train.group_size,
            seed=train.seed,
            engines=team.engines,
            tokenizers=team.tokenizers,
        )
        step = score(system, trajectories)
        missing = train.batch_size - len(step.informative)
        if missing <= 0:
            break
        used = {trajectory.question for trajectory in trajectories}
        further = sampler.batch(number - 1 + attempt * train.steps)
        rows = [row for row in further if row["id"] not in used][:missing]
    return step

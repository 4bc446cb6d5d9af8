"""The outer loop, readable from top to bottom: roll out, score, normalise, learn, sync, write.

It decides nothing about how any of these is done: `rollout` walks the graph, `learning` has the maths, `team` the actors.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import networkx as nx
from rich.console import Console

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import System
from runtime.cluster.failures import EngineLost, WorkerLost
from runtime.data import QuestionSampler, load_rows
from runtime.evaluate import DatasetResult, check_eval, evaluate, overall, results_record
from runtime.interrupt import Interrupted, interruptible, unless
from runtime.learning.algorithms import from_call
from runtime.learning.updates import BadUpdates
from runtime.metrics import MetricsWriter
from runtime.progress import progress
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout
from runtime.runfolder import SCORE, RunFolder, write_trajectories, writing
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
    if all(policy.frozen for policy in system.policies.values()):
        raise UserError(
            f"system {system.name} has nothing to train: every agent is frozen",
            "leave out a `frozen = true`, or measure the system with `drmasc eval`",
        )
    check_eval(system)
    sampler = QuestionSampler(
        load_rows(system.task.train, system.base, system.plugins), system.train.batch_size, system.train.seed
    )
    start, checkpoint = (folder.last_checkpoint() if resume else None) or (0, None)
    if start >= system.train.steps:
        console.print(
            f"{folder.path} has been trained for {start} steps already; `--set train.steps={2 * start}` goes on.",
            highlight=False,
        )
        return Outcome(start, interrupted=False)
    if resume:
        with writing(folder.path):
            folder.forget_after(start)
    console.print(f"Starting {system.name} ...", highlight=False)
    failure: Exception | None = None
    async with open_team(system, checkpoint) as team, interruptible() as stop:
        done = start
        with (
            MetricsWriter(folder.metrics, folder.tensorboard, start) as writer,
            progress(console, system.name, system.train.steps, start) as show,
            Rollouts(graph, team, sampler, stop) as rollouts,
        ):
            try:
                for number in range(start + 1, system.train.steps + 1):
                    metrics, step = await train_step(system, team, rollouts, number)
                    done = number
                    with writing(folder.path):
                        write_trajectories(folder.rollouts(number), step.trajectories)
                    evaluated = _every(system.train.eval_every, number)
                    results = await _evaluation(graph, team, number, stop) if evaluated else {}
                    with writing(folder.path):
                        writer.write(number, metrics | ({"eval": results_record(results)} if results else {}))
                    if results:
                        await _keep_best(team, folder, number, overall(system, results))
                    show(number, metrics)
                    if stop.is_set():
                        break
                    if _every(system.train.save_every, number) and number < system.train.steps:
                        await _save(team, folder, number)
            except Interrupted:
                pass
            except (BadUpdates, BrokenPipeError, EngineLost) as error:  # the weights are good
                failure = error
            except WorkerLost as lost:  # a learner's, and with it what it learned since the last checkpoint
                raise _named(lost, folder) from lost
        if done > start:
            await _save(team, folder, done)
        if failure is not None:
            raise failure
        return Outcome(done, stop.is_set())


def _named(lost: WorkerLost, folder: RunFolder) -> WorkerLost:
    """The loss of a learner, with the checkpoint that is left."""
    last = folder.last_checkpoint()
    way = f"go on from {last[1]} with `--resume`" if last else "set `train.save_every` to have checkpoints on the way"
    return WorkerLost(lost.message, f"{lost.help}; {way}")


async def _save(team: Team, folder: RunFolder, step: int) -> None:
    with writing(folder.path):
        await team.save(folder.checkpoint(step))


async def _keep_best(team: Team, folder: RunFolder, step: int, score: float) -> None:
    """Save the best checkpoint where none has scored as well before."""
    best = folder.best_score()
    if best is None or score > best[1]:
        with writing(folder.path):
            await team.save(folder.best, {SCORE: json.dumps({"step": step, "score": score}) + "\n"})


def _every(interval: int, step: int) -> bool:
    return interval > 0 and step % interval == 0


async def _evaluation(graph: nx.MultiDiGraph, team: Team, number: int, stop: asyncio.Event) -> dict[str, DatasetResult]:
    """The results of an evaluation in mid-run; none where the user stops it."""
    try:
        results, _ = await unless(stop, evaluate(graph, team, number))
    except Interrupted:
        return {}
    return results


async def train_step(system: System, team: Team, rollouts: Rollouts, number: int) -> tuple[dict[str, Any], Step]:
    """Step `number`: a rollout and the updates from it; its metrics and what was rolled out.

    Raises:
        Interrupted: the user stopped the rollout; nothing was learned from it.
        BadUpdates: too many updates in a row were not finite.
    """
    clock, before = [time.perf_counter()], team.crew.losses
    step = await rollouts.next(number)
    clock.append(time.perf_counter())
    policies = await team.update(step.turns)
    clock.append(time.perf_counter())
    await rollouts.settle()
    clock.append(time.perf_counter())
    gaps = await team.sync({policy: figures.weights_version for policy, figures in policies.items()})
    clock.append(time.perf_counter())
    laps = dict(zip(("rollout", "learn", "wait", "sync"), (b - a for a, b in pairwise(clock)), strict=True))
    figures = {name: dataclasses.asdict(update) | {"sync_gap": gaps.get(name)} for name, update in policies.items()}
    losses = {name: count - before[name] for name, count in team.crew.losses.items()}
    return step_metrics(system, step, figures, laps) | losses, step


class Rollouts:
    """Rolls steps out: when they are asked for, or, with `staleness = 1`, one ahead, while the learners update.

    What is ahead is rolled out with the weights from before that update; `settle` waits for it, so that new weights never
    come in the middle of a rollout.
    """

    def __init__(self, graph: nx.MultiDiGraph, team: Team, sampler: QuestionSampler, stop: asyncio.Event) -> None:
        self._collect = partial(collect, graph, team, sampler)
        self._train = system_of(graph).train
        self._stop = stop
        self._ahead: asyncio.Task[Step] | None = None

    async def next(self, number: int) -> Step:
        """The trajectories of step `number`. Raises Interrupted where the user stops it."""
        step = await unless(self._stop, self._ahead or self._collect(number))
        ahead = self._train.staleness and number < self._train.steps
        self._ahead = asyncio.create_task(self._collect(number + 1)) if ahead else None
        return step

    async def settle(self) -> None:
        """Wait until nothing is being rolled out; what goes wrong there is raised by `next`."""
        if self._ahead is not None:
            stopped = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait((self._ahead, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ahead is not None:
            self._ahead.cancel()


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
        if all(trajectory.failed is not None for trajectory in trajectories):
            raise UserError(
                f"every trajectory of step {number} failed, the first because: {trajectories[0].failed}",
                "mend that, and see with `drmasc run FILE --input '{…}'` how one question fares",
            )
        step = score(system, trajectories)
        missing = train.batch_size - len(step.informative)
        if missing <= 0:
            break
        used = {trajectory.question for trajectory in trajectories}
        further = sampler.batch(number - 1 + attempt * train.steps)
        rows = [row for row in further if row["id"] not in used][:missing]
    return step

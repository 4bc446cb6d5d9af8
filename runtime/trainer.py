"""The outer loop, readable from top to bottom: roll out, score, normalise, learn, sync, write.

It decides nothing about how any of these is done: `rollout` walks the graph, `learning` has the maths, `team` the actors.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
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
from runtime.evaluate import DatasetResult, check_eval, evaluate, overall, results_record, test_rows
from runtime.interrupt import Interrupted, interruptible, unless
from runtime.learning.algorithms import from_call
from runtime.metrics import MetricsWriter
from runtime.progress import progress
from runtime.records import Trajectory
from runtime.runfolder import SCORE, RunFolder, writing
from runtime.scoring import Step, score, step_metrics
from runtime.team import Team, open_team


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the last finished step, and whether the user stopped it."""

    step: int
    interrupted: bool


async def train(
    graph: nx.MultiDiGraph, folder: RunFolder, console: Console, going_on: Callable[[int], Sequence[str]] | None = None
) -> Outcome:
    """Train the system of `graph` into `folder`; with `going_on`, which notes from which step and says what has changed, from its
    last checkpoint on.

    Raises:
        UserError: what the system asks for cannot be had, or training went bad (the message says which).
    """
    system = system_of(graph)
    questions = _questions(system)
    start, checkpoint = (folder.last_checkpoint() if going_on else None) or (0, None)
    if start >= system.train.steps:
        console.print(
            f"{folder.path} has been trained for {start} steps already; `--set train.steps={2 * start}` goes on.",
            highlight=False,
        )
        return Outcome(start, interrupted=False)
    console.print(f"Starting {system.name} ...", highlight=False)
    failure: Exception | None = None
    async with open_team(system, checkpoint) as team, interruptible() as stop:
        if going_on is not None:  # now that the checkpoint is known to fit
            for change in going_on(start):
                console.print(f"Going on with {change}", highlight=False, markup=False)
            folder.forget_after(start)
        with (
            MetricsWriter(folder.metrics, folder.tensorboard, start) as writer,
            progress(console, system.name, system.train.steps, start) as show,
            Rollouts(graph, team, questions, stop, start) as rollouts,
        ):
            try:
                for number in range(start + 1, system.train.steps + 1):
                    step = await rollouts.next(number)
                    folder.write_rollouts(number, step.trajectories)
                    metrics = await learn(team, rollouts, step)
                    results = await _evaluation(graph, team, number, stop)
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
            except Exception as error:  # the weights are good, as long as no learner is lost
                failure = error
        if isinstance(failure, WorkerLost) and not isinstance(failure, EngineLost):
            raise _named(failure, folder) from failure
        if rollouts.last > start:
            try:
                await _save(team, folder, rollouts.last)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return Outcome(rollouts.last, stop.is_set())


def _questions(system: System) -> QuestionSampler:
    """What the system is trained on. Raises UserError where there is nothing to train, or nothing to train on."""
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
    if system.train.eval_every:
        test_rows(system)
    rows = load_rows(system.task.train, system.base, system.plugins)
    return QuestionSampler(rows, system.train.batch_size, system.train.seed)


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
    """The results of an evaluation in mid-run; none where it is not its turn, or the user stops it."""
    if not _every(team.system.train.eval_every, number):
        return {}
    try:
        results, _ = await unless(stop, evaluate(graph, team, number))
    except Interrupted:
        return {}
    return results


async def learn(team: Team, rollouts: Rollouts, step: Step) -> dict[str, Any]:
    """The updates from the step that was rolled out last, and the engines brought up to them; the step's metrics.

    Raises:
        BadUpdates: too many updates in a row were not finite.
    """
    clock = [time.perf_counter()]
    policies = await team.update(step.turns)
    clock.append(time.perf_counter())
    await rollouts.settle()
    clock.append(time.perf_counter())
    gaps = await team.sync({policy: figures.weights_version for policy, figures in policies.items()})
    clock.append(time.perf_counter())
    laps = dict(zip(("learn", "wait", "sync"), (b - a for a, b in pairwise(clock)), strict=True))
    figures = {name: dataclasses.asdict(update) | {"sync_gap": gaps.get(name)} for name, update in policies.items()}
    return step_metrics(team.system, step, figures, {"rollout": rollouts.waited} | laps) | team.crew.lost()


class Rollouts:
    """Rolls steps out: when they are asked for, or, with `staleness = 1`, one ahead, while the learners update.

    What is ahead is rolled out with the weights from before that update; `settle` waits for it, so that new weights never
    come in the middle of a rollout. `last` is the step that was given last: what fails after that leaves weights that have
    seen it. `waited`: the seconds that it was waited for.
    """

    def __init__(
        self, graph: nx.MultiDiGraph, team: Team, questions: QuestionSampler, stop: asyncio.Event, start: int = 0
    ) -> None:
        self._collect = partial(collect, graph, team, questions)
        self._train = system_of(graph).train
        self._stop = stop
        self._ahead: asyncio.Task[Step] | None = None
        self.last, self.waited = start, 0.0

    async def next(self, number: int) -> Step:
        """The trajectories of step `number`. Raises Interrupted where the user stops it."""
        begin = time.perf_counter()
        step = await unless(self._stop, self._ahead or self._collect(number))
        self.last, self.waited = number, time.perf_counter() - begin
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


async def collect(graph: nx.MultiDiGraph, team: Team, questions: QuestionSampler, number: int) -> Step:
    """Roll a step out and score it. Where the algorithm resamples (DAPO), questions whose group has no advantage are
    replaced by further ones, as often as it says."""
    system = system_of(graph)
    train, begin = system.train, time.perf_counter()
    rows, trajectories = questions.batch(number - 1), list[Trajectory]()
    for attempt in range(1, from_call(train.algorithm).resample + 2):
        trajectories += await team.rollout(graph, rows, step=number, group_size=train.group_size)
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
        further = questions.batch(number - 1 + attempt * train.steps)
        rows = [row for row in further if str(row["id"]) not in used][:missing]
    return dataclasses.replace(step, seconds=time.perf_counter() - begin)

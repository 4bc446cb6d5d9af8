"""Rolls out a step: all its trajectories at once, as coroutines, and decides when their requests go to the engines.

Behind the gate, a run is reproducible bit for bit: requests go when every walker waits, one batch for each model, in order of
(question, trajectory, turn), and the answers come back together. `immediate` passes each request straight on, for
engines that batch continuously.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import networkx as nx

from drmas_dsl.graph.execution import system_of
from runtime.engines.protocol import Completion, Request
from runtime.records import Trajectory
from runtime.rollout.clock import Clock
from runtime.rollout.interpreter import Generator, Walk, walk
from runtime.rollout.program import prepare


class AsyncEngine(Protocol):
    """An engine as the scheduler sees it. An exception in place of a completion fails that request alone."""

    async def generate(self, requests: list[Request]) -> Sequence[Completion | Exception]:
        """Completions in the order of the requests."""
        ...


async def rollout(
    graph: nx.MultiDiGraph,
    rows: Sequence[Mapping[str, Any]],
    *,
    step: int,
    group_size: int,
    seed: int,
    engines: Mapping[str, AsyncEngine],
    tokenizers: Mapping[str, Any],
    evaluation: bool = False,
    immediate: bool | None = None,
) -> list[Trajectory]:
    """`group_size` trajectories for each row, in the order of the rows. `engines` and `tokenizers` are those of the models,
    by name. A row that comes twice (same `id`) is one question with twice the trajectories. In an `evaluation` the
    temperature and top_p of `eval { … }` stand in for the agents'. `immediate` is off where a model runs on `hf`, and on
    otherwise, unless it is given.

    Raises:
        UserError: something that no trajectory can get over; what goes wrong with one of them is in its record.
    """
    system = system_of(graph)
    own = {"temperature": system.eval.temperature, "top_p": system.eval.top_p} if evaluation else {}
    program = prepare(graph, tokenizers, {name: value for name, value in own.items() if value is not None})
    if immediate is None:
        immediate = all(model.engine.function != "hf" for model in system.models.values())
    generator: Generator = Immediate(engines) if immediate else Gate(engines, len(rows) * group_size)
    members: Counter[str] = Counter()
    tasks = []
    for place, row in enumerate(rows):
        question = str(row.get("id", place))
        for _ in range(group_size):
            clock = Clock(system.train.trajectory_timeout, stops=not immediate)
            trip = Walk(program, row, step, question, place, members[question], seed, generator, clock)
            members[question] += 1
            tasks.append(asyncio.create_task(walk(trip)))
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


class Immediate:
    """Passes every request on at once."""

    def __init__(self, engines: Mapping[str, AsyncEngine]) -> None:
        self._engines = engines

    async def generate(self, model: str, request: Request) -> Completion:
        """The completion of one request to a model."""
        return _completion((await self._engines[model].generate([request]))[0])

    def enter(self, walkers: int) -> None:
        """Nobody waits for others here."""

    def leave(self) -> None:
        """Nobody waits for others here."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    model: str
    request: Request
    answer: asyncio.Future[Completion | Exception]


class Gate:
    """Holds requests back until every walker waits for one. A walker whose tool is at work is not waiting: its next
    request joins the batch."""

    def __init__(self, engines: Mapping[str, AsyncEngine], walkers: int) -> None:
        self._engines = engines
        self._moving = walkers
        self._waiting: list[_Waiting] = []
        self._round: asyncio.Task[None] | None = None

    async def generate(self, model: str, request: Request) -> Completion:
        """The completion of one request to a model."""
        waiting = _Waiting(model, request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self.leave()
        try:
            return _completion(await waiting.answer)
        except asyncio.CancelledError:
            if waiting.answer.cancelled():  # and not answered a moment before
                self._moving += 1  # on its way out, where it leaves
            raise

    def enter(self, walkers: int) -> None:
        """So many more walkers move."""
        self._moving += walkers

    def leave(self) -> None:
        """One walker less moves; behind the last one the gate opens."""
        self._moving -= 1
        if self._moving == 0:
            live = [waiting for waiting in self._waiting if not waiting.answer.done()]  # the others were cancelled
            self._waiting = []
            if live:
                batch = sorted(live, key=lambda waiting: waiting.request.order)
                self._round = asyncio.create_task(self._serve(batch))

    async def _serve(self, batch: list[_Waiting]) -> None:
        """Ask every model at once; answer when all of them have, in the order of the batch."""
        models = dict.fromkeys(waiting.model for waiting in batch)
        shares = {model: [waiting for waiting in batch if waiting.model == model] for model in models}
        answers = await asyncio.gather(*(self._ask(model, share) for model, share in shares.items()))
        answered = zip(chain(*shares.values()), chain(*answers), strict=True)
        self._moving += sum(not waiting.answer.done() for waiting in batch)
        for waiting, answer in sorted(answered, key=lambda pair: pair[0].request.order):
            if not waiting.answer.done():  # cancelled, where the rollout is
                waiting.answer.set_result(answer)

    async def _ask(self, model: str, share: list[_Waiting]) -> list[Completion | Exception]:
        requests = [waiting.request for waiting in share]
        try:
            answers = list(await self._engines[model].generate(requests))
        except Exception as error:
            return [error] * len(share)
        if len(answers) != len(share):
            return [RuntimeError(f"{len(answers)} completions for {len(share)} requests")] * len(share)
        return answers


def _completion(answer: Completion | Exception) -> Completion:
    if isinstance(answer, Exception):
        raise answer
    return answer

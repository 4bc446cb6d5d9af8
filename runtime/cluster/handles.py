"""The driver's side of the workers: starts them, and hands out engines and learners that are awaited.

Handles hide Ray: they take and give plain values, and raise what the worker raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Model, Policy, System
from runtime.cluster.actors import HostedEngine, HostedLearner, Worker
from runtime.cluster.cluster import Cluster
from runtime.cluster.failures import received
from runtime.cluster.placement import Member, Seat, seats
from runtime.cluster.sync import TOLERANCE, compare
from runtime.engines.openai import OpenAIEngine
from runtime.engines.protocol import Completion, Request
from runtime.models import is_remote
from runtime.records import Turn

if TYPE_CHECKING:
    from runtime.learning.updates import UpdateMetrics

START_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Handle:
    """A member of a worker."""

    worker: Any
    name: str

    def send(self, method: str, *args: Any) -> Any:
        """A Ray reference to what the method will give; references among `args` arrive as their values."""
        return self.worker.call.remote(self.name, method, *args)

    async def ask(self, method: str, *args: Any) -> Any:
        """What the method gives."""
        return await received(self.send(method, *args))


class RemoteEngine:
    """One model's policies, each with the member that serves it: the same one for all, or one each."""

    def __init__(self, handles: Mapping[str, Handle], model: Model) -> None:
        self.handles, self.model = handles, model

    async def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """See `Engine.generate`."""
        shares: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            shares.setdefault(self.handles[request.policy].name, []).append(index)
        answers = await asyncio.gather(*(self._ask([requests[i] for i in share]) for share in shares.values()))
        answered = dict(zip(chain(*shares.values()), chain(*answers), strict=True))
        return [answered[index] for index in range(len(requests))]

    async def _ask(self, requests: list[Request]) -> list[Completion | Exception]:
        answers: list[Completion | Exception] = await self.handles[requests[0].policy].ask("generate", requests)
        return answers


class RemoteLearner:
    """One policy's learner."""

    def __init__(self, handle: Handle, policy: Policy) -> None:
        self.handle, self.policy = handle, policy

    async def update(self, turns: Sequence[Turn], agent_norms: bool = False) -> UpdateMetrics:
        """See `Learner.update`."""
        metrics: UpdateMetrics = await self.handle.ask("update", list(turns), agent_norms)
        return metrics

    async def logprobs(self, turns: Sequence[Turn]) -> list[list[float]]:
        """See `Learner.logprobs`."""
        values: list[list[float]] = await self.handle.ask("logprobs", list(turns))
        return values

    async def save(self, folder: Path) -> None:
        """See `Learner.save`."""
        await self.handle.ask("save", str(folder))

    async def load(self, folder: Path) -> None:
        """See `Learner.load`."""
        await self.handle.ask("load", str(folder))


@dataclass(frozen=True, slots=True)
class Actors:
    """`engines` by model, `learners` by policy (only those that are trained)."""

    engines: Mapping[str, RemoteEngine | OpenAIEngine]
    learners: Mapping[str, RemoteLearner]

    async def load(self, policy: Policy, folder: Path, version: int = 0) -> None:
        """Serve a policy with the weights of a folder in the Hugging Face layout."""
        await self._engine(policy).handles[policy.name].ask("load_folder", policy.name, str(folder), version)

    async def sync(self, policy: str) -> float:
        """Bring a policy's weights from its learner to its engine; the largest gap of the canary's log-probabilities.

        Raises:
            SyncError: the engine does not compute what the learner computes.
        """
        learner = self.learners[policy]
        engine = self._engine(learner.policy)
        # A reference goes in: the weights pass from one worker to the other without touching the driver.
        weights = learner.handle.send("weights")
        request, completion = await engine.handles[policy].ask("load_weights", policy, weights)
        (theirs,) = await learner.logprobs([_canary_turn(learner.policy, request, completion)])
        return compare(policy, completion.logprobs, theirs, TOLERANCE[engine.model.dtype])

    def _engine(self, policy: Policy) -> RemoteEngine:
        engine = self.engines[policy.model]
        assert isinstance(engine, RemoteEngine)  # what has weights here is served here
        return engine


@asynccontextmanager
async def actors(system: System, found: Cluster, learners: bool = True) -> AsyncIterator[Actors]:
    """The engines and (with `learners`) learners of a system, started at once, and ended with the `with`.

    Raises:
        UserError: the first that a worker met on its way up.
    """
    handles: dict[Member, Handle] = {}
    starts, workers = [], []
    for seat in seats(system, found, learners):
        worker = _spawn(seat)
        workers.append(worker)
        for member in seat.members:
            handles[member] = Handle(worker, member.name)
            starts.append(worker.open.remote(member.name, *_build(system, member, seat.threads)))
    try:
        await _started(starts)
        yield Actors(_engines(system, handles), _learners(system, handles))
    finally:
        for worker in workers:
            _kill(worker)


def _engines(system: System, handles: Mapping[Member, Handle]) -> dict[str, RemoteEngine | OpenAIEngine]:
    serving = {policy: handle for member, handle in handles.items() for policy in member.serves}
    used = {policy.model: system.models[policy.model] for policy in system.policies.values()}
    return {
        name: OpenAIEngine(model)
        if is_remote(model)
        else RemoteEngine({p: serving[p] for p in serving if system.policies[p].model == name}, model)
        for name, model in used.items()
    }


def _learners(system: System, handles: Mapping[Member, Handle]) -> dict[str, RemoteLearner]:
    return {m.learns: RemoteLearner(handle, system.policies[m.learns]) for m, handle in handles.items() if m.learns}


async def _started(starts: Sequence[Any]) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            await asyncio.gather(*(received(start) for start in starts))
    except TimeoutError as error:
        raise UserError(
            f"the workers did not come up within {START_SECONDS:g} seconds",
            "see with `ray status` whether the cluster's CPUs and GPUs are taken",
        ) from error


def _spawn(seat: Seat) -> Any:
    import ray

    options = {"num_cpus": seat.cpus, "num_gpus": seat.gpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
    return ray.remote(Worker).options(**options).remote()


def _kill(worker: Any) -> None:
    import ray

    ray.kill(worker)


def _build(system: System, member: Member, threads: int) -> tuple[Any, ...]:
    """What `Worker.open` takes after the name."""
    if member.learns:
        return HostedLearner, threads, system, member.learns
    return HostedEngine, threads, system.models[member.model], member.serves, system.base


def _canary_turn(policy: Policy, request: Request, completion: Completion) -> Turn:
    """The canary as a learner takes it."""
    return Turn(
        step=0,
        question="canary",
        trajectory="canary",
        agent=policy.agents[0],
        policy=policy.name,
        index=0,
        prompt_ids=request.prompt_ids,
        response_ids=completion.response_ids,
        logprobs=completion.logprobs,
        weights_version=completion.weights_version,
        temperature=request.sampling.temperature,
        prompt="",
        text="",
        outputs={},
        valid=True,
        defaulted=False,
        truncated=False,
    )

"""The driver's side of the cluster: a system's engines and learners, and the way of the weights between them.

Nothing here or below is known to the outer loop but plain values: what a worker raised is raised here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from drmas_dsl.graph.settings import Policy, System
from runtime.cluster.cluster import Cluster
from runtime.cluster.engines import RemoteEngine, Replica
from runtime.cluster.learners import RemoteLearner
from runtime.cluster.placement import Member, pool_of
from runtime.cluster.stations import Handle, stations
from runtime.cluster.sync import TOLERANCE, compare
from runtime.engines.openai import OpenAIEngine
from runtime.engines.protocol import Completion, Request
from runtime.models import is_remote
from runtime.records import Turn


class Actors:
    """`engines` by model, `learners` by policy (only those that are trained)."""

    def __init__(self, system: System, members: Mapping[Member, Handle]) -> None:
        ranks: dict[str, list[Handle]] = {}
        replicas: dict[str, list[Replica]] = {}
        for member, handle in members.items():
            if member.learns:
                ranks.setdefault(member.learns, []).append(handle)
                continue
            replica = Replica(handle, member.serves)
            for policy in member.serves:
                replicas.setdefault(policy, []).append(replica)
        self.learners = {name: RemoteLearner(handles, system.policies[name]) for name, handles in ranks.items()}
        self.engines: dict[str, RemoteEngine | OpenAIEngine] = {}
        for name in dict.fromkeys(policy.model for policy in system.policies.values()):
            model = system.models[name]
            mine = {policy: found for policy, found in replicas.items() if system.policies[policy].model == name}
            self.engines[name] = OpenAIEngine(model) if is_remote(model) else RemoteEngine(model, mine, self._restore)
        busy = {pool_of(system, policy.model) for name, policy in system.policies.items() if name in ranks}
        self._sleepers = [
            (engine, replica)
            for engine in self.engines.values()
            if isinstance(engine, RemoteEngine) and engine.model.engine.args.get("sleep", False)
            if pool_of(system, engine.model.name) in busy
            for replica in dict.fromkeys(chain(*engine.replicas.values()))
        ]
        self._policies = system.policies
        self._folders: dict[str, tuple[str, int]] = {}  # what policies without a learner serve

    def lost(self) -> dict[str, int]:
        """Requests that were asked again and engines that were started again, since this was last asked."""
        engines = [engine for engine in self.engines.values() if isinstance(engine, RemoteEngine)]
        counts = {name: sum(getattr(engine, name) for engine in engines) for name in ("retried", "restarts")}
        for engine in engines:
            engine.retried = engine.restarts = 0
        return counts

    async def sleep(self) -> None:
        """Let the engines that are to sleep give the devices that they share with learners to these."""
        await asyncio.gather(*(engine.ask(replica, "sleep") for engine, replica in self._sleepers))

    async def wake(self) -> None:
        """Have them back, with the weights that they had."""
        await asyncio.gather(*(engine.ask(replica, "wake") for engine, replica in self._sleepers))

    async def load(self, policy: Policy, folder: Path, version: int = 0) -> None:
        """Serve a policy with the weights of a folder in the Hugging Face layout."""
        self._folders[policy.name] = str(folder), version
        engine = self._engine(policy.name)
        loads = [
            engine.ask(replica, "load_folder", policy.name, str(folder), version)
            for replica in engine.replicas[policy.name]
        ]
        await asyncio.gather(*loads)

    async def sync(self, policy: str) -> float:
        """Bring a policy's weights from its learner to its engines; the largest gap of the canary's log-probabilities.

        Raises:
            SyncError: an engine does not compute what the learner computes.
        """
        # A reference goes round: the weights pass from one worker to the others without touching the driver.
        weights = await self.learners[policy].weights()
        engine = self._engine(policy)
        loads = [self._load(policy, partial(engine.ask, replica), weights) for replica in engine.replicas[policy]]
        return max(await asyncio.gather(*loads))

    async def _load(self, policy: str, ask: Callable[..., Awaitable[Any]], weights: Any) -> float:
        """Put weights into an engine, which is asked by `ask`; the canary's gap."""
        learner = self.learners[policy]
        request, completion = await ask("load_weights", policy, weights)
        (theirs,) = await learner.logprobs([_canary_turn(learner.policy, request, completion)])
        return compare(policy, completion.logprobs, theirs, TOLERANCE[self._engine(policy).model.dtype])

    async def _restore(self, policy: str, replica: Replica) -> None:
        """Bring a policy's current weights to a member that has those of the start."""
        if policy in self.learners:
            await self._load(policy, replica.handle.ask, await self.learners[policy].weights())
        elif policy in self._folders:
            await replica.handle.ask("load_folder", policy, *self._folders[policy])

    def _engine(self, policy: str) -> RemoteEngine:
        engine = self.engines[self._policies[policy].model]
        assert isinstance(engine, RemoteEngine)  # what has weights here is served here
        return engine


@asynccontextmanager
async def actors(system: System, found: Cluster, learners: bool = True) -> AsyncIterator[Actors]:
    """The engines and (with `learners`) learners of a system, started at once, and ended with the `with`.

    Raises:
        UserError: the pools cannot be placed; or the first that a worker met on its way up.
    """
    async with stations(system, found, learners) as members:
        yield Actors(system, members)


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
    )

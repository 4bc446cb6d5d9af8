"""An engine as the rollout sees it: one model's policies, served by one or several members, of which the least busy is asked.

A member whose worker dies is started again with the current weights, and what it had is asked once more: requests carry their
seed, so the answers are those that would have come. What takes too long is asked elsewhere once, then given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from drmas_dsl.errors import first_line
from drmas_dsl.graph.settings import Model
from runtime.cluster.failures import EngineLost, TooSlow, WorkerLost
from runtime.cluster.stations import Handle
from runtime.engines.protocol import Completion, Request

RESTARTS = 3  # of one member without an answer in between
Answers = list[Completion | Exception]


class Replica:
    """A member that serves policies. `busy`: requests that it has now; `losses`: deaths since it last answered; `revival`:
    under way or, where it has failed, for good."""

    def __init__(self, handle: Handle, serves: Sequence[str]) -> None:
        self.handle, self.serves = handle, tuple(serves)
        self.busy = self.losses = 0
        self.revival: asyncio.Task[None] | None = None

    @property
    def expendable(self) -> bool:
        """Whether nothing is lost with its worker: a learner beside it would be."""
        return not any(member.learns for member in self.handle.station.seat.members)


class RemoteEngine:
    """`replicas` by policy; `restore` gives a member that is as at the start the current weights of a policy."""

    def __init__(
        self,
        model: Model,
        replicas: Mapping[str, Sequence[Replica]],
        restore: Callable[[str, Replica], Awaitable[None]],
    ) -> None:
        self.model, self.replicas = model, replicas
        self.retried = self.restarts = 0  # requests that were asked again, workers that were started again
        self._restore = restore
        self._seconds: float = model.engine.args.get("timeout", 3600.0)

    async def generate(self, requests: Sequence[Request]) -> Answers:
        """See `Engine.generate`; a TimeoutError for a request that nobody answered in time.

        Raises:
            WorkerLost: a member died and cannot be started again, or was in vain.
        """
        shares: dict[Replica, list[int]] = {}
        for index, request in enumerate(requests):
            replica = await self._available(request.policy)
            replica.busy += 1
            shares.setdefault(replica, []).append(index)
        parts = await asyncio.gather(*(self._answers(r, [requests[i] for i in share]) for r, share in shares.items()))
        answers: dict[int, Completion | Exception] = {}
        for share, part in zip(shares.values(), parts, strict=True):
            answers |= zip(share, part, strict=True)
        return [answers[index] for index in range(len(requests))]

    async def ask(self, replica: Replica, method: str, *args: Any) -> Any:
        """What a method of this very member gives, of its next worker where one dies.

        Raises:
            WorkerLost: see `generate`.
        """
        while True:
            if replica.revival is not None:
                await asyncio.shield(replica.revival)
            worker = replica.handle.station.worker
            try:
                return await replica.handle.ask(method, *args)
            except WorkerLost as lost:
                self._lost(replica, worker, lost)

    async def _answers(self, replica: Replica, requests: list[Request]) -> Answers:
        """The answers of a member, or of another one where it dies or is too slow."""
        policy, late = requests[0].policy, False
        while True:
            worker = replica.handle.station.worker
            try:
                return await self._once(replica, requests)
            except TooSlow:
                others = [r for r in self.replicas[policy] if r is not replica and r.revival is None]
                if late or not others:
                    said = TimeoutError(f"no answer within {self._seconds:g} s (`engine.timeout`)")
                    return [said] * len(requests)
                late, replica = True, _least_busy(others)
            except WorkerLost as lost:
                self._lost(replica, worker, lost)
                replica = await self._available(policy)
            self.retried += len(requests)
            replica.busy += len(requests)

    async def _once(self, replica: Replica, requests: list[Request]) -> Answers:
        try:
            answers: Answers = await replica.handle.ask("generate", requests, seconds=self._seconds)
        finally:
            replica.busy -= len(requests)
        replica.losses = 0
        return answers

    async def _available(self, policy: str) -> Replica:
        """The least busy member of those that live; where none does, the first that is back."""
        replicas = self.replicas[policy]
        while not (alive := [replica for replica in replicas if replica.revival is None]):
            revivals = [asyncio.shield(replica.revival) for replica in replicas if replica.revival]
            done, _ = await asyncio.wait(revivals, return_when=asyncio.FIRST_COMPLETED)
            for revival in done:
                revival.result()
        return _least_busy(alive)

    def _lost(self, replica: Replica, worker: object, lost: WorkerLost) -> None:
        """See to it that a member comes back whose worker died, unless somebody has."""
        if replica.revival is not None or replica.handle.station.worker is not worker:
            return
        if not replica.expendable:
            raise lost
        replica.revival = asyncio.create_task(self._revive(replica, lost))

    async def _revive(self, replica: Replica, lost: Exception) -> None:
        while True:
            replica.losses += 1
            if replica.losses > RESTARTS:
                raise EngineLost(f"{first_line(lost)} ({RESTARTS} restarts did not help)", getattr(lost, "help", ""))
            self.restarts += 1
            try:
                await replica.handle.station.restart()
                for policy in replica.serves:
                    await self._restore(policy, replica)
            except Exception as again:  # it dies again, does not come up in time, or is refused what it had
                lost = again
            else:
                replica.revival = None
                return


def _least_busy(replicas: Sequence[Replica]) -> Replica:
    return min(replicas, key=lambda replica: replica.busy)

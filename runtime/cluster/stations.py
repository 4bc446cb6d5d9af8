"""A system's workers as the driver starts them: each pool is a Ray placement group, each of its bundles has a station, and a
station has a worker with its members, which can be started again.

What members are is the business of `placement`, what they answer that of `engines` and `learners`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import System
from runtime.cluster.actors import HostedEngine, HostedLearner, Worker
from runtime.cluster.cluster import Cluster
from runtime.cluster.failures import in_time, received
from runtime.cluster.placement import Member, Seat, seats, too_large

START_SECONDS = 600.0
PLACE_SECONDS = 60.0  # others may be about to leave
ANSWER_SECONDS = 6 * 3600.0  # where no other time-out is named: an update of a large model on few cores


class Station:
    """One seat's worker, and where it runs. Where it has died, another one takes its place, whose members are as at the
    start."""

    def __init__(self, system: System, seat: Seat, group: Any, bundle: int) -> None:
        self.seat = seat
        self.worker: Any = None
        self._system, self._group, self._bundle = system, group, bundle

    def spawn(self) -> None:
        """A worker, without its members yet."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.end()
        where = PlacementGroupSchedulingStrategy(self._group, self._bundle)
        options = {"num_cpus": self.seat.cpus, "num_gpus": self.seat.gpus, "max_restarts": 0}
        self.worker = ray.remote(Worker).options(**options, scheduling_strategy=where).remote()

    async def open(self, addresses: Mapping[str, str]) -> None:
        """Build the members. `addresses`: where the ranks of a policy's learner meet, if it has several."""
        if self.seat.memory is not None:
            await received(self.worker.require_memory.remote(self.seat.pool, self.seat.memory))
        opened = [
            self.worker.open.remote(member.name, *_build(self._system, member, self.seat.threads, addresses))
            for member in self.seat.members
        ]
        await asyncio.gather(*map(received, opened))

    async def restart(self) -> None:
        """A new worker in the place of one that died."""
        self.spawn()
        await in_time(self.open({}), START_SECONDS, "a worker did not come up again")

    def end(self) -> None:
        """Without a word to those who wait for it."""
        import ray

        if self.worker is not None:
            ray.kill(self.worker)


@dataclass(frozen=True, slots=True)
class Handle:
    """A member of a station."""

    station: Station
    name: str

    async def ask(self, method: str, *args: Any, seconds: float = ANSWER_SECONDS) -> Any:
        """What the method gives; Ray's references among `args` arrive as their values.

        Raises:
            TooSlow: it takes longer than `seconds`.
        """
        answer = received(self.station.worker.call.remote(self.name, method, *args))
        return await in_time(answer, seconds, f"no answer to `{method}` from the {self.name}")


@asynccontextmanager
async def stations(system: System, found: Cluster, learners: bool) -> AsyncIterator[dict[Member, Handle]]:
    """Handles of all members of a system, started at once, and ended with the `with`.

    Raises:
        UserError: the pools cannot be placed; or the first that a worker met on its way up.
    """
    taken: list[Station] = []
    pools: dict[str, list[Seat]] = {}
    for seat in seats(system, found, learners):
        pools.setdefault(seat.pool, []).append(seat)
    groups: list[Any] = []
    try:
        for pool, parts in pools.items():
            groups.append(await _placed(pool, parts))
            taken += [Station(system, seat, groups[-1], bundle) for bundle, seat in enumerate(parts)]
        for station in taken:
            station.spawn()
        await in_time(_open(taken), START_SECONDS, "the workers did not come up")
        yield {member: Handle(station, member.name) for station in taken for member in station.seat.members}
    finally:
        for station in taken:
            station.end()
        for group in groups:
            _remove(group)


async def _open(taken: Sequence[Station]) -> None:
    """Build all members, after the first ranks have said where they are to be met: at once, but for engines on a part of a
    GPU. These come first, one after the other, because vLLM measures what its GPU has left while it starts."""
    first = {
        member.learns: station.worker.address.remote()
        for station in taken
        for member in station.seat.members
        if member.ranks > 1 and member.number == 0
    }
    addresses = dict(zip(first, await asyncio.gather(*map(received, first.values())), strict=True))
    sharing = [station for station in taken if 0 < station.seat.gpus < 1 and not station.seat.members[0].learns]
    for station in sharing:
        await station.open(addresses)
    await asyncio.gather(*(station.open(addresses) for station in taken if station not in sharing))


async def _placed(pool: str, parts: Sequence[Seat]) -> Any:
    """A placement group with a bundle for each seat, close together where that is possible.

    Raises:
        UserError: the cluster has no such devices, or others hold them.
    """
    import ray
    from ray.util.placement_group import placement_group

    bundles = [{"CPU": seat.cpus} | ({"GPU": seat.gpus} if seat.gpus else {}) for seat in parts]
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if reason := too_large(bundles, nodes):
        raise UserError(
            f"pool {pool or 'default'!r} cannot be placed: {reason}", "ask for less in `resources`, or add machines"
        )
    group = placement_group(bundles, strategy="PACK")
    if not await asyncio.to_thread(group.wait, PLACE_SECONDS):
        _remove(group)
        asked = ", ".join(f"{sum(b.get(kind, 0) for b in bundles):g} {kind}" for kind in ("CPU", "GPU"))
        there = "; ".join(f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU" for node in nodes)
        raise UserError(
            f"pool {pool or 'default'!r} could not be placed within {PLACE_SECONDS:g} seconds: it asks for {asked}, and the "
            f"cluster's machines have {there}, some of it taken",
            "see with `ray status` who has it, or ask for less in `resources`",
        )
    return group


def _remove(group: Any) -> None:
    from ray.util.placement_group import remove_placement_group

    remove_placement_group(group)


def _build(system: System, member: Member, threads: int, addresses: Mapping[str, str]) -> tuple[Any, ...]:
    """What `Worker.open` takes after the name."""
    if not member.learns:
        return HostedEngine, threads, system.models[member.model], member.serves, system.base
    address = addresses.get(member.learns, "")
    return HostedLearner, threads, system, member.learns, member.number, member.ranks, address

"""Who sits where: which engines and learners share a worker, and what part of its pool each worker gets.

On GPUs every member has a worker of its own. On CPUs a pool has no more workers than cores: members that take turns gain nothing
from more. All workers of a pool get equal parts, rounded down, so that they always fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Pool, System
from runtime.cluster.cluster import Cluster
from runtime.models import is_remote


@dataclass(frozen=True, slots=True)
class Member:
    """A model's engine (`policy` is None) or a policy's learner."""

    model: str
    policy: str | None = None

    @property
    def name(self) -> str:
        """Unique among the members."""
        return f"engine {self.model}" if self.policy is None else f"learner {self.policy}"


@dataclass(frozen=True, slots=True)
class Seat:
    """One worker: its members, logical CPUs and GPUs (at most one of each), and threads for its tensors."""

    members: tuple[Member, ...]
    cpus: float
    gpus: float
    threads: int


def seats(system: System, found: Cluster, learners: bool) -> list[Seat]:
    """The workers of a system; with `learners` also those of its trained policies. Remote models need none.

    Raises:
        UserError: the pools ask for more CPUs than the cluster has.
    """
    wanted = sum(pool.cpus or 0 for pool in system.pools.values())
    if wanted > found.cpus:
        raise UserError(
            f"the pools ask for {wanted} CPUs, and the cluster has {found.cpus:g}", "lower `cpus` in `resources`"
        )
    members = [Member(name) for name, model in system.models.items() if not is_remote(model)]
    if learners:
        members += [Member(policy.model, policy.name) for policy in system.policies.values() if not policy.frozen]
    pools = {member: _pool(system, member.model) for member in members}
    names = dict.fromkeys(pool.name for pool in pools.values())
    return [
        seat for name in names for seat in _seats([(m, pool) for m, pool in pools.items() if pool.name == name], found)
    ]


def _seats(placed: list[tuple[Member, Pool]], found: Cluster) -> Iterator[Seat]:
    """Of one pool. Members go round the workers in order, so that its engines are spread first, then its learners."""
    members, pool = [member for member, _ in placed], placed[0][1]
    cpus = min(found.cpus, pool.cpus or found.cpus)
    gpus = float(pool.gpus) if pool.name else found.gpus  # without `resources`, whatever is there
    count = len(members) if gpus else max(1, min(len(members), int(cpus)))
    for place in range(count):
        yield Seat(tuple(members[place::count]), _part(cpus, count), _part(gpus, count), max(1, int(cpus // count)))


def _part(total: float, count: int) -> float:
    """An equal part, in hundredths of a device; at most one, which fits on some machine whatever their sizes."""
    return min(1.0, math.floor(100 * total / count) / 100)


def _pool(system: System, model: str) -> Pool:
    """Where a model lives: the pool that names it, else the first that names none."""
    naming = [pool for pool in system.pools.values() if model in pool.models]
    return next(iter(naming or [pool for pool in system.pools.values() if not pool.models]), Pool())

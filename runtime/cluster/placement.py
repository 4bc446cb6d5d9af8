"""Who sits where: which engines and learners share a worker, and what part of its pool each worker gets.

On GPUs, and with vLLM, a member has a worker of its own. On CPUs a pool has no more workers than cores: members that take turns
gain nothing from more. All workers of a pool get equal parts, rounded down, so that they always fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Pool, System
from runtime.cluster.cluster import Cluster
from runtime.engines.protocol import takes_adapters
from runtime.models import is_remote


@dataclass(frozen=True, slots=True)
class Member:
    """An engine, which serves policies of a model, or the learner of one (`learns`)."""

    model: str
    serves: tuple[str, ...] = ()
    learns: str = ""

    @property
    def name(self) -> str:
        """Unique among the members."""
        return f"learner of {self.learns}" if self.learns else f"engine of {', '.join(self.serves)}"


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
    members = _members(system, learners)
    wanted = sum(pool.cpus or 0 for pool in system.pools.values())
    if members and wanted > found.cpus:
        raise UserError(
            f"the pools ask for {wanted} CPUs, and the cluster has {found.cpus:g}", "lower `cpus` in `resources`"
        )
    pools = {member: _pool(system, member.model) for member in members}
    names = dict.fromkeys(pool.name for pool in pools.values())
    return [
        seat
        for name in names
        for seat in _seats(system, [(m, pool) for m, pool in pools.items() if pool.name == name], found)
    ]


def _members(system: System, learners: bool) -> list[Member]:
    served: dict[str, list[str]] = {}
    for policy in system.policies.values():
        served.setdefault(policy.model, []).append(policy.name)
    members: list[Member] = []
    for name, policies in served.items():
        if _is_vllm(system, name) and not takes_adapters(system.models[name]):  # it holds one set of weights
            members += [Member(name, serves=(policy,)) for policy in policies]
        elif not is_remote(system.models[name]):
            members.append(Member(name, serves=tuple(policies)))
    if learners:
        members += [Member(p.model, learns=p.name) for p in system.policies.values() if not p.frozen]
    return members


def _seats(system: System, placed: list[tuple[Member, Pool]], found: Cluster) -> list[Seat]:
    """Of one pool. Members go round the workers in order, so that its engines are spread first, then its learners."""
    members, pool = [member for member, _ in placed], placed[0][1]
    cpus = min(found.cpus, pool.cpus or found.cpus)
    gpus = float(pool.gpus) if pool.name else found.gpus  # without `resources`, whatever is there
    alone = [m for m in members if gpus or (m.serves and _is_vllm(system, m.model))]
    others = [member for member in members if member not in alone]
    count = min(len(others), max(1, int(cpus) - len(alone)))
    groups = [(member,) for member in alone] + [tuple(others[place::count]) for place in range(count)]
    threads = max(1, int(cpus // len(groups)))
    return [Seat(group, _part(cpus, len(groups)), _part(gpus, len(groups)), threads) for group in groups]


def _is_vllm(system: System, model: str) -> bool:
    return system.models[model].engine.function == "vllm"


def _part(total: float, count: int) -> float:
    """An equal part, in hundredths of a device; at most one, which fits on some machine whatever their sizes."""
    return min(1.0, math.floor(100 * total / count) / 100)


def _pool(system: System, model: str) -> Pool:
    """Where a model lives: the pool that names it, else the first that names none."""
    naming = [pool for pool in system.pools.values() if model in pool.models]
    return next(iter(naming or [pool for pool in system.pools.values() if not pool.models]), Pool())

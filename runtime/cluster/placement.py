"""Who sits where: which engines and learners share a worker, and what part of its pool each worker gets.

On GPUs, and with vLLM, a member has a worker of its own. On CPUs a pool has no more workers than cores: members that take turns
gain nothing from more. Workers of a pool get equal parts, at most a device each, so that they always fit; ranks of a learner and
engines that are spread over GPUs have theirs alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Pool, System
from runtime.cluster.cluster import Cluster
from runtime.engines.protocol import takes_adapters
from runtime.models import is_remote


@dataclass(frozen=True, slots=True)
class Member:
    """An engine, which serves policies of a model, or a learner of one (`learns`). `number`: which of the engines that
    serve the same policies it is, or which of the `ranks` that share a learner."""

    model: str
    serves: tuple[str, ...] = ()
    learns: str = ""
    number: int = 0
    ranks: int = 1

    @property
    def name(self) -> str:
        """Unique among the members."""
        what = f"learner of {self.learns}" if self.learns else f"engine of {', '.join(self.serves)}"
        return f"{what}, {self.number}" if self.number else what


@dataclass(frozen=True, slots=True)
class Seat:
    """One worker: its members, logical CPUs (at most one) and GPUs, and threads for its tensors. `memory`: GiB that its GPU
    must have."""

    members: tuple[Member, ...]
    cpus: float
    gpus: float
    threads: int
    pool: str = ""
    memory: float | None = None


def seats(system: System, found: Cluster, learners: bool) -> list[Seat]:
    """The workers of a system; with `learners` also those of its trained policies. Remote models need none.

    Raises:
        UserError: the pools ask for more CPUs than the cluster has, or have too few GPUs for their engines.
    """
    members = _members(system, learners)
    pools = {member: pool_of(system, member.model) for member in members}
    used = {pool.name: pool for pool in pools.values()}
    cpus = _cpus([*used.values()], found)
    return [
        seat
        for name, pool in used.items()
        for seat in _seats(system, [m for m, its in pools.items() if its.name == name], pool, cpus[name], found.gpus)
    ]


def too_large(bundles: Sequence[Mapping[str, float]], nodes: Sequence[Mapping[str, float]]) -> str:
    """Why no placement of the bundles, each of them on one of the nodes, is possible; empty where one may be."""
    for kind in ("CPU", "GPU"):
        asked, there = [bundle.get(kind, 0.0) for bundle in bundles], [node.get(kind, 0.0) for node in nodes]
        if sum(asked) > sum(there) + 1e-6:
            return f"it asks for {sum(asked):g} {kind}, and the cluster has {sum(there):g}"
        if max(asked) > max(there):
            return f"it asks for {max(asked):g} {kind} on one machine, and the largest has {max(there):g}"
    return ""


def _members(system: System, learners: bool) -> list[Member]:
    served: dict[str, list[str]] = {}
    for policy in system.policies.values():
        served.setdefault(policy.model, []).append(policy.name)
    members: list[Member] = []
    for name, policies in served.items():
        model = system.models[name]
        apart = _is_vllm(system, name) and not takes_adapters(model)  # such an engine holds one set of weights
        groups = [(policy,) for policy in policies] if apart else [tuple(policies)]
        if not is_remote(model):
            count = model.engine.args.get("engines", 1)
            members += [Member(name, serves=group, number=number) for group in groups for number in range(count)]
    if learners:
        for policy in system.policies.values():
            if not policy.frozen:
                ranks = system.models[policy.model].learner.ranks
                members += [
                    Member(policy.model, learns=policy.name, number=number, ranks=ranks) for number in range(ranks)
                ]
    return members


def _cpus(pools: Sequence[Pool], found: Cluster) -> dict[str, float]:
    """The CPUs of each pool; those that name none share what the others leave."""
    named = sum(pool.cpus or 0 for pool in pools)
    others = sum(not pool.cpus for pool in pools)
    if named + others > found.cpus:
        asked = ", ".join(f"{pool.name or 'default'} ({pool.cpus or 'at least 1'})" for pool in pools)
        raise UserError(
            f"the pools ask for {named + others} CPUs, and the cluster has {found.cpus:g}: {asked}",
            "lower `cpus` in `resources`",
        )
    return {pool.name: float(pool.cpus or (found.cpus - named) // others) for pool in pools}


def _seats(system: System, members: Sequence[Member], pool: Pool, cpus: float, gpus: float) -> list[Seat]:
    """Of one pool. Members go round the workers in order, so that its engines are spread first, then its learners."""
    if pool.name:  # without `resources`, whatever is there
        gpus = float(pool.gpus)
    alone = _alternating([m for m in members if gpus or m.ranks > 1 or (m.serves and _is_vllm(system, m.model))])
    others = [member for member in members if member not in alone]
    count = min(len(others), max(1, int(cpus) - len(alone)))
    groups = [(member,) for member in alone] + [tuple(others[place::count]) for place in range(count)]
    whole = [_whole(system, group[0]) if gpus else 0 for group in groups]
    left, sharing = gpus - sum(whole), whole.count(0)
    if gpus and (left < 0 or (sharing and left < 1)):
        raise UserError(
            f"pool {pool.name or 'default'!r} has {gpus:g} GPUs; `tensor_parallel` and `ranks` take {sum(whole)}, and "
            f"{sharing} further workers need one to share",
            "raise `gpus`, or lower `tensor_parallel`, `engines` or `ranks`",
        )
    threads = max(1, int(cpus // len(groups)))
    part = _part(left, sharing)
    return [
        Seat(group, _part(cpus, len(groups)), float(own or part), threads, pool.name, pool.memory)
        for group, own in zip(groups, whole, strict=True)
    ]


def _alternating(members: Sequence[Member]) -> list[Member]:
    """Engines and learners in turn: Ray fills one device after the other, and one of each kind use it in turn."""
    kinds = [[member for member in members if bool(member.learns) == learns] for learns in (False, True)]
    return [member for pair in zip_longest(*kinds) for member in pair if member is not None]


def _whole(system: System, member: Member) -> int:
    """GPUs that a member needs for itself: an engine that is spread over several, a rank of a learner; 0 where it can
    share one."""
    if member.learns:
        return int(member.ranks > 1)
    count: int = system.models[member.model].engine.args.get("tensor_parallel", 1)
    return count if count > 1 else 0


def _is_vllm(system: System, model: str) -> bool:
    return system.models[model].engine.function == "vllm"


def _part(total: float, count: int) -> float:
    """A worker's part of a device where `count` share `total` of them, in hundredths: as many as need be on each, so that
    they fit however the devices are spread over machines."""
    return math.floor(100 / math.ceil(count / total)) / 100 if 0 < total < count else float(total >= count > 0)


def pool_of(system: System, model: str) -> Pool:
    """Where a model lives: the pool that names it, else the first that names none."""
    naming = [pool for pool in system.pools.values() if model in pool.models]
    return next(iter(naming or [pool for pool in system.pools.values() if not pool.models]), Pool())

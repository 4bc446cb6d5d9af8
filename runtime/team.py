"""A system's running processes as the outer loop sees them: engines to ask, learners to update, weights to keep equal.

It starts and ends everything, and knows how a checkpoint lies on disk: one folder per trained policy.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Policy, System
from runtime.cluster.cluster import cluster
from runtime.cluster.engines import RemoteEngine
from runtime.cluster.handles import Actors, actors
from runtime.cluster.support import require_supported
from runtime.engines.openai import OpenAIEngine
from runtime.learning.updates import UpdateMetrics
from runtime.models import load_tokenizer
from runtime.records import Trajectory, Turn
from runtime.rollout.scheduler import rollout


@dataclass(frozen=True)
class Team:
    """`engines` and `tokenizers` by model."""

    system: System
    crew: Actors
    tokenizers: Mapping[str, Any]
    _served: dict[str, int] = field(default_factory=dict)  # policy -> version that its engine has

    @property
    def engines(self) -> Mapping[str, RemoteEngine | OpenAIEngine]:
        """Who generates."""
        return self.crew.engines

    async def rollout(
        self,
        graph: nx.MultiDiGraph,
        rows: Sequence[Mapping[str, Any]],
        *,
        group_size: int,
        step: int = 0,
        evaluation: bool = False,
    ) -> list[Trajectory]:
        """See `rollout.scheduler`."""
        return await rollout(
            graph,
            rows,
            step=step,
            group_size=group_size,
            seed=self.system.train.seed,
            engines=self.engines,
            tokenizers=self.tokenizers,
            evaluation=evaluation,
        )

    async def update(self, turns: Sequence[Turn]) -> dict[str, UpdateMetrics]:
        """Update every trained policy from its turns, all at once; a policy without turns makes no step."""
        policies = self.crew.learners
        parts = [[turn for turn in turns if turn.policy == policy] for policy in policies]
        await self.crew.sleep()
        done = await asyncio.gather(
            *(
                learner.update(part, self.system.train.agent_norms)
                for learner, part in zip(policies.values(), parts, strict=True)
            )
        )
        await self.crew.wake()
        return dict(zip(policies, done, strict=True))

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """Give the engines the policies whose version is not the one that they serve; the canary's gap of each."""
        behind = [policy for policy, version in versions.items() if version != self._served.get(policy, 0)]
        gaps = await asyncio.gather(*map(self.crew.sync, behind))
        self._served.update({policy: versions[policy] for policy in behind})
        return dict(zip(behind, gaps, strict=True))

    async def save(self, folder: Path, notes: Mapping[str, str] | None = None) -> None:
        """Write a checkpoint, with `notes` as files beside the weights. It appears under its name when it is complete, in
        place of what was there."""
        part, old = (folder.with_name(f"{folder.name}.{suffix}") for suffix in ("part", "old"))
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        await asyncio.gather(*(learner.save(part / policy) for policy, learner in self.crew.learners.items()))
        for name, text in (notes or {}).items():
            (part / name).write_text(text, encoding="utf-8")
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)

    async def load(self, checkpoint: Path) -> None:
        """Put a checkpoint's weights into learners and engines.

        Raises:
            UserError: they do not fit.
        """
        learners = self.crew.learners
        versions = await asyncio.gather(*(learner.load(checkpoint / name) for name, learner in learners.items()))
        await self.sync(dict(zip(learners, versions, strict=True)))
        served = [policy for policy in _trained(self.system) if policy.name not in learners]
        await asyncio.gather(*(self.crew.load(policy, checkpoint / policy.name) for policy in served))


def _trained(system: System) -> list[Policy]:
    return [policy for policy in system.policies.values() if not policy.frozen]


def _require_policies(system: System, checkpoint: Path) -> None:
    for policy in _trained(system):
        if not (checkpoint / policy.name).is_dir():
            raise UserError(
                f"{checkpoint} has no policy {policy.name}",
                "it is the checkpoint of another system or sharing: its run folder has the file that it was trained from",
            )


@asynccontextmanager
async def open_team(system: System, checkpoint: Path | None, learners: bool = True) -> AsyncIterator[Team]:
    """A system's processes, from its start or a checkpoint; without `learners` only what generates.

    Raises:
        UserError: something that the system asks for cannot be had here.
    """
    require_supported(system)
    if checkpoint is not None:
        _require_policies(system, checkpoint)
    with cluster(system) as found, ThreadPoolExecutor(1, "tokenizers") as aside:
        loading = aside.submit(_tokenizers, system)  # while the workers come up
        async with actors(system, found, learners) as crew:
            team = Team(system, crew, loading.result())
            if checkpoint is not None:
                await team.load(checkpoint)
            yield team


def _tokenizers(system: System) -> dict[str, Any]:
    return {name: load_tokenizer(model, system.base) for name, model in system.models.items()}

"""Rolls questions out in this process: the real interpreter and the embedded engine, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx

from drmas_dsl.graph.execution import system_of
from runtime.engines.hf import HfEngine
from runtime.engines.protocol import Completion, Request
from runtime.models import load_tokenizer
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout


class Local:
    """An engine that answers at once."""

    def __init__(self, engine: HfEngine) -> None:
        self.engine = engine

    async def generate(self, requests: list[Request]) -> Sequence[Completion | Exception]:
        return self.engine.generate(requests)


def rolled_out(graph: nx.MultiDiGraph, rows: Sequence[Mapping[str, Any]], group_size: int) -> list[Trajectory]:
    """The trajectories of the rows, in order."""
    system = system_of(graph)
    policies = {name: [p for p, policy in system.policies.items() if policy.model == name] for name in system.models}
    engines = {name: Local(HfEngine(model, policies[name], system.base)) for name, model in system.models.items()}
    tokenizers = {name: load_tokenizer(model, system.base) for name, model in system.models.items()}
    return asyncio.run(
        rollout(graph, rows, step=0, group_size=group_size, seed=0, engines=engines, tokenizers=tokenizers)
    )

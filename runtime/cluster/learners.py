"""A policy's learner as the outer loop sees it: one member, or several ranks that are asked the same in the same order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Policy
from runtime.cluster.stations import Handle
from runtime.records import Turn

if TYPE_CHECKING:
    from runtime.learning.updates import UpdateMetrics

CONSEQUENCES = 5.0  # seconds: one rank's failure ends what the others do together with it


class RemoteLearner:
    """One policy's learner; the first rank's answers count."""

    def __init__(self, ranks: Sequence[Handle], policy: Policy) -> None:
        self.ranks, self.policy = ranks, policy
        self._order = asyncio.Lock()  # the same for all ranks, which wait for one another

    async def update(self, turns: Sequence[Turn], agent_norms: bool = False) -> UpdateMetrics:
        """See `Learner.update`."""
        metrics: UpdateMetrics = await self._ask("update", list(turns), agent_norms)
        return metrics

    async def logprobs(self, turns: Sequence[Turn]) -> list[list[float]]:
        """See `Learner.logprobs`."""
        values: list[list[float]] = await self._ask("logprobs", list(turns))
        return values

    async def weights(self) -> Any:
        """A Ray reference to their version and, packed, the weights."""
        (reference,) = await self._ask("weights")
        return reference

    async def save(self, folder: Path) -> None:
        """See `Learner.save`."""
        await self._ask("save", str(folder))

    async def load(self, folder: Path) -> int:
        """See `Learner.load`; the version of the weights."""
        version: int = await self._ask("load", str(folder))
        return version

    async def _ask(self, method: str, *args: Any) -> Any:
        async with self._order:
            return (await together([rank.ask(method, *args) for rank in self.ranks]))[0]


async def together(answers: Sequence[Awaitable[Any]]) -> list[Any]:
    """What all of them give. Where one fails, the others wait for it or fail in consequence: the error that is for the user
    is raised, if there is one."""
    tasks = [asyncio.ensure_future(answer) for answer in answers]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    if pending and any(task.exception() for task in done):
        done |= (await asyncio.wait(pending, timeout=CONSEQUENCES))[0]
    errors = [error for task in tasks if task in done and (error := task.exception())]
    for error in sorted(errors, key=lambda error: not isinstance(error, UserError)):
        raise error
    return [task.result() for task in tasks]

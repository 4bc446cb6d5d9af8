"""What runs in Ray's processes: a worker, and the engines and learners that it hosts.

A worker is the one kind of actor. It hosts one or several members, because a process that has imported torch and transformers is
dear (four seconds of a core) and members that take turns lose nothing by sharing it; `placement` says who sits where. Members
are built by a call and not in a constructor, so that what goes wrong there reaches the user as itself. The driver does not call
these but through `stations`.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Model, Sampling, System
from runtime.cluster.sync import Packed, canary_prompt, pack, unpack
from runtime.engines.protocol import Completion, Engine, Request, takes_adapters
from runtime.models import load_model, useful_threads

if TYPE_CHECKING:
    import torch

    from runtime.learning.updates import UpdateMetrics
    from runtime.records import Turn

CANARY_TOKENS = 4


class Member(Protocol):
    """An engine or a learner in its worker."""

    concurrency: int  # calls that may run at once
    parameters: int  # of the model


class Worker:
    """An actor. Calls run in threads of the member that they are for, so that the others stay reachable."""

    def __init__(self) -> None:
        self._builder = ThreadPoolExecutor(1)  # loading a model sets global defaults: one at a time
        self._members: dict[str, tuple[Member, ThreadPoolExecutor]] = {}

    async def open(self, name: str, build: Callable[..., Member], threads: int, *args: Any) -> None:
        """Build a member. `threads` is what its tensors may use, if it is large enough to gain from it."""
        member = await asyncio.get_running_loop().run_in_executor(self._builder, partial(_built, threads, build, *args))
        self._members[name] = (member, ThreadPoolExecutor(member.concurrency))
        if member.parameters:
            _use_threads(max(useful_threads(other.parameters, threads) for other, _ in self._members.values()))

    async def address(self) -> str:
        """Where the ranks of a learner may meet: this machine and a port that is free."""
        import ray

        host = ray.util.get_node_ip_address()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return f"{host}:{probe.getsockname()[1]}"

    async def require_memory(self, pool: str, gib: float) -> None:
        """Raises UserError where the worker's GPU has less memory than its pool says."""
        import torch

        total = torch.cuda.get_device_properties(0).total_memory / 2**30
        if total < 0.95 * gib:  # a part is the driver's
            raise UserError(
                f"pool {pool!r} says `memory = {gib:g}`, and a GPU of it has {total:.0f} GiB",
                "correct `memory`, or run where the GPUs are larger",
            )

    async def call(self, name: str, method: str, *args: Any) -> Any:
        """What a member's method gives."""
        member, pool = self._members[name]
        return await asyncio.get_running_loop().run_in_executor(pool, getattr(member, method), *args)


class HostedEngine:
    """An engine of a model, for some of its policies."""

    def __init__(self, model: Model, policies: Sequence[str], base: str) -> None:
        self._model, self._engine = model, _engine(model, policies, base)
        self.concurrency, self.parameters = self._engine.concurrency, self._engine.parameters

    def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """See `Engine.generate`."""
        return self._engine.generate(requests)

    def load_weights(self, policy: str, weights: tuple[int, Packed]) -> tuple[Request, Completion]:
        """Put new weights (version first) in place; the canary's request and what the engine answers with them."""
        version, packed = weights
        self._engine.load_weights(policy, unpack(packed), version)
        return self._canary(policy)

    def load_folder(self, policy: str, folder: str, version: int) -> None:
        """Put the weights of a checkpoint's folder in place: the whole model's, or the adapter where engines take that."""
        try:
            self._engine.load_weights(policy, _saved(self._model, folder), version)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{folder} holds no checkpoint of policy {policy}: {error}", "name a run that this system wrote"
            ) from error

    def sleep(self) -> None:
        """See `Engine.sleep`."""
        self._engine.sleep()

    def wake(self) -> None:
        """See `Engine.wake`."""
        self._engine.wake()

    def _canary(self, policy: str) -> tuple[Request, Completion]:
        """A short sampled response, the same one for the same weights."""
        engine = self._engine
        prompt = canary_prompt(engine.canary_length, engine.vocabulary, engine.context)
        request = Request(policy, prompt, Sampling(max_tokens=CANARY_TOKENS), seed=0, order=(0, 0, 0))
        (completion,) = engine.generate([request])
        if isinstance(completion, Exception):
            raise completion
        return request, completion


class HostedLearner:
    """One policy's learner, or one of its ranks, which meet at `address`."""

    concurrency = 1

    def __init__(self, system: System, policy: str, rank: int = 0, ranks: int = 1, address: str = "") -> None:
        from runtime.learning import shards
        from runtime.learning.learner import Learner

        if ranks > 1:
            shards.meet(address, rank, ranks)
        self._first = rank == 0
        settings = system.policies[policy]
        model = system.models[settings.model]
        self._learner = Learner(settings, model, system.agents, system.train, system.base, system.train.seed)
        self.parameters = sum(parameter.numel() for parameter in self._learner.trained.net.parameters())

    def update(self, turns: Sequence[Turn], agent_norms: bool = False) -> UpdateMetrics:
        """See `Learner.update`."""
        return self._learner.update(turns, agent_norms)

    def weights(self) -> list[Any]:
        """A reference to their version and, as arrays in Ray's object store, the weights; only from the first rank."""
        import ray

        weights = self._learner.weights()
        return [ray.put((self._learner.version, pack(weights)))] if self._first else []

    def logprobs(self, turns: Sequence[Turn]) -> list[list[float]]:
        """See `Learner.logprobs`."""
        return [values.tolist() for values in self._learner.logprobs(turns)]

    def save(self, folder: str) -> None:
        """See `Learner.save`."""
        self._learner.save(folder)

    def load(self, folder: str) -> int:
        """See `Learner.load`; the version of the weights."""
        self._learner.load(folder)
        return self._learner.version


def _built(threads: int, build: Callable[..., Member], *args: Any) -> Member:
    """A member, with the threads that it may use from the start (vLLM takes as many as it finds, and Ray leaves one), and
    without collections in between: importing and loading makes objects that stay. They are then left out of all later
    ones, which would otherwise cost a step a tenth of a second now and then."""
    _use_threads(threads)
    gc.disable()
    try:
        return build(*args)
    finally:
        gc.freeze()
        gc.enable()


def _engine(model: Model, policies: Sequence[str], base: str) -> Engine:
    if model.engine.function == "vllm":
        from runtime.engines.vllm import VllmEngine

        return VllmEngine(model, policies, base)
    from runtime.engines.hf import HfEngine

    return HfEngine(model, policies, base)


def _saved(model: Model, folder: str) -> dict[str, torch.Tensor]:
    if takes_adapters(model):
        from runtime.learning.weights import served_adapter

        return served_adapter(Path(folder))
    return dict(load_model(replace(model, weights={"path": folder}), "").named_parameters())


def _use_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)

"""The learner of one policy: its weights, its optimiser, and an update from a step's turns.

It knows turns with advantages and nothing of questions, engines or Ray. A mini-batch's gradient does not depend on how it
is cut into micro-batches, nor on how many ranks share them: losses are divided by counts over the whole mini-batch. Forward
passes run in the model's number format; weights and the optimiser's state are float32. On a CPU the same turns give the
same bits.
"""

from __future__ import annotations

import functools
import math
import operator
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from drmas_dsl.errors import UserError
from drmas_dsl.graph import settings
from runtime import models
from runtime.learning import losses, passes, shards
from runtime.learning.batches import MicroBatch, micro_batches
from runtime.learning.objective import Objective
from runtime.learning.optimizer import adamw, learning_rate, load_whole_state, move_state, whole_state
from runtime.learning.updates import BadUpdates, Sums, UpdateMetrics, merged, named
from runtime.learning.weights import AdapterWeights, FullWeights, Weights
from runtime.records import Turn

STATE = "learner.pt"  # beside the weights in a checkpoint: optimiser, counters, random state

_CPU = torch.device("cpu")

# What reading a file that is cut short, damaged or of something else may raise.
_UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, KeyError, SafetensorError, UnpicklingError)


class Learner:
    """Trains one policy. `agents` holds at least those that act with it; `base` is the folder that relative paths of the
    model start from; `seed` decides how turns fall into mini-batches. Where `torch.distributed` has several ranks, each of
    them makes the same learner and calls the same methods with the same turns.

    Raises:
        UserError: the model cannot be loaded, or the algorithm not be set up.
    """

    def __init__(
        self,
        policy: settings.Policy,
        model: settings.Model,
        agents: Mapping[str, settings.Agent],
        train: settings.Train,
        base: str,
        seed: int = 0,
    ) -> None:
        self.policy, self.train = policy, train
        self.agents = {name: agents[name] for name in policy.agents}
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype: torch.dtype = getattr(torch, model.dtype)
        self.tokenizer = models.load_tokenizer(model, base)
        self.objective = Objective(policy, self.agents, train, self.device)
        seed = zlib.crc32(f"{seed}/{policy.name}".encode())
        if policy.lora is None:
            self.trained: Weights = FullWeights(model, base, self.device, self.objective.needs_reference)
        else:
            self.trained = AdapterWeights(model, base, self.device, policy.lora, seed)
        self.parameters = [parameter for parameter in self.trained.net.parameters() if parameter.requires_grad]
        self.optimizer = adamw(self.parameters, policy.optimizer)
        self.offload = model.learner.offload
        self.generator = torch.Generator().manual_seed(seed)
        self.version = 0
        self.updates = 0
        self.bad_in_a_row = 0
        if self.offload:
            self._move(_CPU)

    def update(self, turns: Sequence[Turn], agent_norms: bool = False) -> UpdateMetrics:
        """One pass over a step's turns in `mini_updates` optimiser steps; without turns nothing changes.

        `agent_norms` measures the norm of every agent's own gradient, also where agents share the weights.

        Raises:
            BadUpdates: `max_bad_updates` in a row were not finite.
        """
        turns = self._trained(turns)
        if not turns:
            return UpdateMetrics(self.version)
        parts = []
        try:
            with self._at_work():
                # With one update the old policy is that of the very pass that has the gradient.
                old = self._all_logprobs(turns) if self.train.mini_updates > 1 else [None] * len(turns)
                for rows in torch.randperm(len(turns), generator=self.generator).tensor_split(self.train.mini_updates):
                    if len(rows):
                        parts.append(self._mini_update([(turns[row], old[row]) for row in rows.tolist()], agent_norms))
        finally:  # also where the last of them was one too many
            self.version += any(part.updates for part in parts)
        return merged(parts, self.version)

    def logprobs(self, turns: Sequence[Turn]) -> list[Tensor]:
        """Log-probabilities of each turn's response tokens at its temperature, in order, on the CPU."""
        with self._at_work(optimizer=False):
            return self._all_logprobs(turns)

    def weights(self) -> dict[str, Tensor]:
        """A copy of what the model's engine takes, see `Weights.export`, in the model's number format, on the CPU."""
        with self._together():
            return {name: value.to(self.dtype) for name, value in self.trained.export().items()}

    def save(self, folder: str | Path) -> None:
        """Write weights, configuration and tokenizer in the Hugging Face layout, and what training needs to go on."""
        with self._together():
            self.trained.save(Path(folder))
            optimizer = whole_state(self.optimizer)
        state = {
            "optimizer": optimizer,
            "generator": self.generator.get_state(),
            "version": self.version,
            "updates": self.updates,
        }
        if shards.rank() == 0:
            self.tokenizer.save_pretrained(folder)
            torch.save(state, Path(folder) / STATE)
        shards.gathered(None)  # nobody goes on before all is written

    def load(self, folder: str | Path) -> None:
        """Go on from what `save` wrote; the KL's reference stays the start.

        Raises:
            UserError: the folder holds no checkpoint of this policy.
        """
        try:
            self.trained.load(Path(folder))
            state: dict[str, Any] = torch.load(Path(folder) / STATE, map_location="cpu", weights_only=True)
            load_whole_state(self.optimizer, state["optimizer"])
            self.generator.set_state(state["generator"])
            self.version, self.updates = state["version"], state["updates"]
        except (UserError, *_UNREADABLE) as error:
            raise UserError(
                f"{folder} holds no checkpoint of policy {self.policy.name}: {str(error) or type(error).__name__}",
                "name a checkpoint that this system wrote",
            ) from error

    @contextmanager
    def _at_work(self, optimizer: bool = True) -> Iterator[None]:
        """What is needed is on the device; with `offload` it waits in the CPU's memory before and after. What a GPU's memory
        was used for is given back, since engines may share it."""
        if self.offload:
            self._move(self.device, optimizer)
        try:
            yield
        finally:
            if self.offload:
                self._move(_CPU, optimizer)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _together(self) -> AbstractContextManager[None]:
        """In which shards can be put together: where the ranks can talk, which on GPUs is not the CPU's memory."""
        return self._at_work() if shards.world() > 1 else nullcontext()

    def _move(self, device: torch.device, optimizer: bool = True) -> None:
        self.trained.to(device)
        if optimizer:
            move_state(self.optimizer, device)

    def _all_logprobs(self, turns: Sequence[Turn]) -> list[Tensor]:
        """See `logprobs`."""
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for batch, mine in self._share(turns):
                values = self._logprobs(self.trained.net, batch).cpu()
                if mine:
                    found |= zip(batch.rows, batch.by_turn(values), strict=True)
        everywhere = {row: values for part in shards.gathered(found) for row, values in part.items()}
        return [everywhere[row] for row in range(len(turns))]

    def _trained(self, turns: Sequence[Turn]) -> list[Turn]:
        """The turns that the loss is made of."""
        masked = self.train.truncated == "mask"
        return [
            turn
            for turn in turns
            if turn.response_ids and not self.agents[turn.agent].frozen and not (masked and turn.truncated)
        ]

    def _mini_update(self, pairs: list[tuple[Turn, Tensor | None]], agent_norms: bool) -> UpdateMetrics:
        """One optimiser step from turns and their old log-probabilities, or none where it is not finite."""
        rate = learning_rate(self.policy.optimizer, self.updates, self.train.steps * self.train.mini_updates)
        sums, norms = self._gradient(pairs, agent_norms)
        limit = self.policy.optimizer.grad_clip or math.inf
        norm = float(shards.whole(torch.nn.utils.clip_grad_norm_(self.parameters, limit)))
        bad: Sequence[Turn] = sums.bad
        if bad or not math.isfinite(norm):
            bad = bad or self._culprits(pairs)
            self._count_bad(bad)
        else:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.updates += 1
            self.bad_in_a_row = 0
        self.optimizer.zero_grad()
        return UpdateMetrics.of(
            sums,
            turns=len(pairs),
            grad_norm=norm,
            lr=rate,
            reference=self.objective.needs_reference,
            norms=norms,
            bad=bad,
        )

    def _gradient(
        self, pairs: Sequence[tuple[Turn, Tensor | None]], agent_norms: bool
    ) -> tuple[Sums, dict[str, float]]:
        """Leave the mini-batch's gradient in the parameters; sums over it, and the agents' own norms where asked for."""
        denominator = self.objective.denominator([turn for turn, _ in pairs])
        norms: dict[str, float] = {}
        if not agent_norms:
            sums = self._accumulate(pairs, denominator)
        else:
            sums, total = Sums(), [torch.zeros_like(parameter) for parameter in self.parameters]
            for agent in self.agents:
                sums += self._accumulate([pair for pair in pairs if pair[0].agent == agent], denominator)
                own = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
                norms[agent] = float(shards.whole(torch.nn.utils.get_total_norm(own)))
                torch._foreach_add_(total, own)
                self.optimizer.zero_grad()
            for parameter, value in zip(self.parameters, total, strict=True):
                parameter.grad = value
        return functools.reduce(operator.add, shards.gathered(sums)), norms

    def _accumulate(self, pairs: Sequence[tuple[Turn, Tensor | None]], denominator: float) -> Sums:
        """Add the gradient of these turns' part of the loss; what has none is only read, for the figures."""
        with_gradient = [pair for pair in pairs if self.objective.has_gradient(pair[0])]
        without = [pair for pair in pairs if not self.objective.has_gradient(pair[0])]
        sums = self._pass(with_gradient, denominator)
        with torch.no_grad():
            sums += self._pass(without, denominator)
        if not with_gradient:
            for parameter in self.parameters:
                parameter.grad = torch.zeros_like(parameter)
        return sums

    def _pass(self, pairs: Sequence[tuple[Turn, Tensor | None]], denominator: float) -> Sums:
        """Micro-batch by micro-batch, backward too where gradients are on; the sums over this rank's."""
        sums = Sums()
        for batch, mine in self._share([turn for turn, _ in pairs]):
            known = [values for row in batch.rows if (values := pairs[row][1]) is not None]
            old = torch.cat(known).to(self.device) if known else None
            reference = None
            if self.objective.needs_reference:
                with torch.no_grad(), self.trained.start() as start:
                    reference = self._logprobs(start, batch)
            read = Sums(read=batch.input_ids.numel(), padding=batch.padding)
            for where, logits in passes.parts(self.trained.net, batch, self.dtype):
                loss, part = self.objective.loss(batch, where, logits, old, reference, denominator)
                read += part
                if loss.requires_grad:  # FSDP averages gradients over the ranks
                    torch.autograd.backward(loss * (shards.world() if mine else 0))
            if mine:
                sums += read
        return sums

    def _share(self, turns: Sequence[Turn]) -> Iterator[tuple[MicroBatch, bool]]:
        """This rank's micro-batches. All ranks get equally many, because they run a sharded model together: where there
        are too few, a rank runs along on one that is not its own."""
        batches = micro_batches(turns, self.policy.micro_tokens, self.device)
        for first in range(0, len(batches), shards.world()):
            mine = first + shards.rank()
            yield batches[min(mine, len(batches) - 1)], mine < len(batches)

    def _logprobs(self, model: Any, batch: MicroBatch) -> Tensor:
        """Log-probabilities (N,) of a micro-batch's response tokens under a module; without gradients."""
        return torch.cat(
            [
                losses.token_logprobs(logits, batch.tokens[where])
                for where, logits in passes.parts(model, batch, self.dtype)
            ]
        )

    def _culprits(self, pairs: Sequence[tuple[Turn, Tensor | None]]) -> list[Turn]:
        """Turns whose own gradient is not finite although their loss is; all where only their sum is not."""
        found = []
        for pair in pairs:
            self.optimizer.zero_grad()
            self._gradient([pair], False)
            grads = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            if not math.isfinite(float(shards.whole(torch.nn.utils.get_total_norm(grads)))):
                found.append(pair[0])
        return found or [turn for turn, _ in pairs]

    def _count_bad(self, bad: Sequence[Turn]) -> None:
        self.bad_in_a_row += 1
        if self.bad_in_a_row >= self.train.max_bad_updates:
            raise BadUpdates(
                f"{self.bad_in_a_row} updates in a row of policy {self.policy.name} had a loss or gradient that is not "
                f"finite, the last through {named(bad)}",
                "look at these turns in the run's rollouts; go on from the last checkpoint with a lower learning rate",
            )

"""What every engine takes and gives.

An engine serves the policies of one model, inside a Ray actor. It never sees text: token ids in, token ids and
log-probabilities out. Remote models (`engines.openai`) have the same requests and completions, and live in the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Model, Sampling

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Request:
    """One generation. `order` is (question, trajectory, turn) within the step: the order in which a batch is served;
    a turn inside of a fork has more numbers, (…, fork, branch, turn).
    `seed` alone decides the draws, whatever else is in the batch."""

    policy: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    seed: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """The response with its end token, if it came; `logprobs` of each token under the distribution that was sampled
    from (none from a remote model); `finish` is "stop" (end token or stop text) or "length". `usage`: tokens of prompt and
    response as a remote server counts them, whose ids are bytes."""

    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]
    weights_version: int
    usage: tuple[int, int] | None = None


class EngineBroken(Exception):
    """The engine is in no state to go on: another one has to take its place."""


class Engine(Protocol):
    """Serves one model's policies."""

    canary_length: int  # tokens of a prompt that tests weights; more than a block where prefixes are cached
    vocabulary: int
    context: int
    parameters: int
    concurrency: int  # calls of `generate` that may run at once, each in a thread of its own

    def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """Completions in the order of the requests; an exception where one of them alone cannot be served."""
        ...

    def load_weights(self, policy: str, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Put a policy's new weights in place: all of them, or its adapter where the engine takes these."""
        ...

    def sleep(self) -> None:
        """Give the GPU's memory back, when nothing is under way. The weights wait in the CPU's memory."""
        ...

    def wake(self) -> None:
        """Take it again. Nothing is generated and no weights come before."""
        ...


def takes_adapters(model: Model) -> bool:
    """Whether the model's engine serves adapters as such, all from one set of weights; others get them merged."""
    return model.sharing == "adapter" and model.engine.function == "vllm"


def require_gpu_to_sleep(model: Model, gpu: bool) -> None:
    """Refuse `sleep` where there is no GPU.

    Raises:
        UserError: there is none, so that sleeping would have no effect.
    """
    if model.engine.args.get("sleep", False) and not gpu:
        raise UserError(
            f"model {model.name!r}: `engine.sleep` gives back memory of a GPU, and its engine has none", "leave it out"
        )

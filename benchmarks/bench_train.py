"""One update of the same model on the same turns: ours, TRL's `GRPOTrainer`, and the bare forward and backward pass, in turn.

    make bench-train
    python -m benchmarks.bench_train [--models tiny smollm2] [--repeats 5] [--trl .venv-bench/bin/python]

Each measurement is a process of its own (`train_worker`). The gradients' norms must agree, so that both do the same work. Writes
benchmarks/results/train.md, also with the seconds that the advantages of 100,000 turns take.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runs import ROOT
from benchmarks.train_worker import CASES, GROUP, ROWS
from drmas_dsl.graph.settings import Train
from runtime.learning.advantages import Scored
from runtime.learning.credit import estimate, scored

RESULTS = ROOT / "benchmarks" / "results" / "train.md"
SHAPES = {"grouped": f"groups of {GROUP} with one prompt", "distinct": "all prompts different"}
KINDS = {"ours": "drmasc", "trl": "TRL", "bare": "forward and backward alone"}
THREADS = {"tiny": 1, "smollm2": os.cpu_count() or 1}
TOLERANCE = 1e-3
TURNS, AGENTS = 100_000, 5

Figures = Mapping[str, float]


def measured(kind: str, model: str, shape: str, python: str) -> Figures:
    """The figures of one update in a process of its own.

    Raises:
        RuntimeError: it failed; the message holds what it said.
    """
    words = ["-m", "benchmarks.train_worker", kind, model, shape, str(THREADS[model])]
    done = subprocess.run([python, *words], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{kind} of {model} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def compared(model: str, shape: str, repeats: int, pythons: Mapping[str, str]) -> dict[str, list[Figures]]:
    """`repeats` rounds of the three, each round in another order.

    Raises:
        RuntimeError: the gradients differ.
    """
    found: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    for number in range(repeats):
        for kind in list(KINDS) if number % 2 == 0 else list(KINDS)[::-1]:
            found[kind].append(measured(kind, model, shape, pythons[kind]))
            last = found[kind][-1]
            print(
                f"{model} {shape} {kind}: {last['seconds']:.2f} s ({last['cpu']:.2f} s of CPU time), peak {last['peak']:.0f} MiB",
                flush=True,
            )
    ours, theirs = (found[kind][-1]["norm"] for kind in ("ours", "trl"))
    if abs(ours - theirs) > TOLERANCE * theirs:
        raise RuntimeError(f"the gradients of {model} differ: norm {ours} against TRL's {theirs}")
    return found


def median(runs: Sequence[Figures], name: str) -> float:
    """The median of a figure."""
    return statistics.median(run[name] for run in runs)


def ratio(found: Mapping[str, Sequence[Figures]], above: str, below: str) -> str:
    """How many times as fast as `below` is `above`, round by round: median, lowest and highest."""
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(found[above], found[below], strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def rows(model: str, shape: str, found: Mapping[str, Sequence[Figures]]) -> list[str]:
    """The lines of the table for one model and shape."""
    tokens = found["ours"][0]["tokens"]
    lines = []
    for kind, name in KINDS.items():
        runs = found[kind]
        speed = f"{tokens / median(runs, 'seconds'):,.0f}"
        above, peak = (f"{median(runs, figure):,.0f}" for figure in ("above", "peak"))
        times = {"ours": ratio(found, "ours", "trl"), "trl": "1", "bare": ratio(found, "bare", "trl")}[kind]
        lines.append(f"| {model}, {SHAPES[shape]} | {name} | {speed} | {times} | {above} | {peak} |")
    return lines


def advantages() -> tuple[float, float]:
    """Median seconds of the advantages of 100,000 turns under `agent`: from arrays, and from the records' columns."""
    turns = np.arange(TURNS)
    scores = np.random.default_rng(0).normal(size=TURNS)
    trajectories = turns // AGENTS
    columns: dict[str, Any] = {
        "steps": [1] * TURNS,
        "questions": [str(number) for number in trajectories // GROUP],
        "trajectories": [str(number) for number in trajectories],
        "agents": [f"agent{number}" for number in turns % AGENTS],
        "scores": scores.tolist(),
    }

    def arrays() -> Scored:
        return scored(**columns)[0]

    made = arrays()
    fresh = partial(dataclasses.replace, made)  # what one copy has worked out, another does not know
    return _seconds(lambda: estimate(fresh(), Train())), _seconds(lambda: estimate(arrays(), Train()))


def _seconds(work: Callable[[], object], repeats: int = 9) -> float:
    laps = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        laps.append(time.perf_counter() - start)
    return statistics.median(laps)


def main() -> None:
    """Measure everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trl", default=str(ROOT / ".venv-bench" / "bin" / "python"), help="Python that has TRL")
    arguments = parser.parse_args()
    pythons = {"ours": sys.executable, "bare": sys.executable, "trl": arguments.trl}
    lines, start = [], time.perf_counter()
    for model in arguments.models:
        for shape in SHAPES:
            lines += rows(model, shape, compared(model, shape, arguments.repeats, pythons))
    from_arrays, from_records = advantages()
    page = PAGE.format(
        rows="\n".join(lines),
        repeats=arguments.repeats,
        sequences=ROWS,
        tiny=THREADS["tiny"],
        smollm2=THREADS["smollm2"],
        torch=metadata.version("torch"),
        transformers=metadata.version("transformers"),
        trl=_pinned("trl"),
        turns=TURNS,
        arrays=from_arrays * 1000,
        records=from_records * 1000,
        minutes=(time.perf_counter() - start) / 60,
    )
    print(page)
    RESULTS.write_text(page, encoding="utf-8")


def _pinned(package: str) -> str:
    lines = Path(ROOT, "benchmarks", "requirements.txt").read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


PAGE = """# One update

`make bench-train`: the same model, turns, advantages and AdamW in float32, each measurement in a process of its own, in turn; medians of
{repeats}. TRL {trl}, transformers {transformers}, torch {torch}; {tiny} thread for the tiny model, {smollm2} for SmolLM2-135M. Generation is apart:
TRL's `GRPOTrainer` is handed the turns where it would generate and score, and what is timed is its step from there to after the
optimiser's. The norms of the two gradients agree to 0.001 of themselves, or the benchmark fails.

| turns | who | tokens/s | times TRL's speed | MiB above the loaded model | peak MiB |
|---|---|---|---|---|---|
{rows}

Tokens are those of prompts and responses, without padding. Prompts and responses have log-normal lengths. A backward pass of TRL has {sequences}
sequences, padded to the longest prompt and the longest response of the step; ours has at most as many tokens with padding, sorted by length. TRL's
gradient checkpointing, which it switches on by default, and bf16 are off; no KL. Both report entropy and clipped shares, neither forms the logits
of all tokens at once. `forward and backward alone` is the model on the same sequences, {sequences} at a time in order of length, with the
log-probabilities of the responses, without loss, metrics, clipping or optimiser: the limit for whoever reads every prompt anew.

Advantages of {turns:,} turns of five agents under `normalize = agent`: {arrays:.1f} ms from arrays, {records:.1f} ms from the columns of records.

The whole took {minutes:.0f} minutes.
"""


if __name__ == "__main__":
    main()

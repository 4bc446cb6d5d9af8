"""Twenty steps of `gym.mas`: SmolLM2-135M with an adapter for each agent learns sums of Reasoning Gym. The curve, and the test questions
before and after, apart where training asked them too.

    python -m benchmarks.bench_gym [--steps 20] [--work runs/bench-gym] [--set PATH=VALUE …]

A run that is finished in the work folder is not run again. Written: benchmarks/results/gym.md, docs/images/gym_curve.png.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from benchmarks.runs import ROOT, Run, mean, train
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from runtime.data import load_rows
from runtime.estimates import Estimate, avg_at_k, estimate
from runtime.evaluate import evaluate
from runtime.records import Trajectory
from runtime.runfolder import RunFolder
from runtime.team import open_team

SYSTEM = ROOT / "graphs" / "gym.mas"
RESULTS = ROOT / "benchmarks" / "results" / "gym.md"
CURVE = ROOT / "docs" / "images" / "gym_curve.png"
PART = 5  # steps at the start and the end that are compared


def main() -> None:
    """Evaluate, train, evaluate; write the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "bench-gym")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    arguments = parser.parse_args()
    overrides = [f"train.steps={arguments.steps}", *arguments.overrides]
    graph = compile_file(SYSTEM, overrides)
    run = train("gym", arguments.work, overrides)
    before, after = asked(graph, None), asked(graph, RunFolder(arguments.work).named_checkpoint("last"))
    page = PAGE.format(
        steps=arguments.steps,
        overrides="".join(f" --set {each}" for each in arguments.overrides),
        part=PART,
        curve="\n".join(curve(run)),
        test="\n".join(test(graph, before, after)),
        minutes=run.seconds / 60,
        step=mean(run.figures("seconds", "step")),
        rollout=mean(run.figures("seconds", "rollout")),
        learn=mean(run.figures("seconds", "learn")),
    )
    print(page)
    RESULTS.write_text(page, encoding="utf-8")
    shutil.copyfile(arguments.work / "curve.png", CURVE)


def asked(graph: nx.MultiDiGraph, checkpoint: Path | None) -> list[Trajectory]:
    """The test questions' trajectories from a checkpoint, or from the start."""

    async def work() -> list[Trajectory]:
        async with open_team(system_of(graph), checkpoint, learners=False) as team:
            return (await evaluate(graph, team))[1]

    return asyncio.run(work())


def curve(run: Run) -> list[str]:
    """First and last steps of the run: means and, of the reward, twice the standard error over the steps."""
    lines = []
    figures = {
        "reward": ("reward",),
        "Solver: score": ("agents", "Solver", "score"),
        "Solver: well-formed": ("agents", "Solver", "valid_share"),
        "Verifier: score": ("agents", "Verifier", "score"),
        "Verifier: well-formed": ("agents", "Verifier", "valid_share"),
        "Solver: calls": ("agents", "Solver", "calls_per_trajectory"),
    }
    for name, path in figures.items():
        values = run.figures(*path)
        lines.append(f"| {name} | {_mean(values[:PART])} | {_mean(values[-PART:])} |")
    return lines


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} ± {2 * np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def test(graph: nx.MultiDiGraph, before: Sequence[Trajectory], after: Sequence[Trajectory]) -> list[str]:
    """Solved test questions before and after, all and those that are not in the training set."""
    system = system_of(graph)
    assert system.task.train is not None
    known = {row["question"] for row in load_rows(system.task.train, system.base)}
    first, last = solved(before, system.eval.samples), solved(after, system.eval.samples)
    new = np.array([t.row["question"] not in known for t in before[:: system.eval.samples]])
    lines = []
    for name, part in (("all", np.ones_like(new)), ("not in the training set", new)):
        values = (first[part], last[part], last[part] - first[part])
        lines.append(f"| {name} | {part.sum()} | {' | '.join(map(_interval, map(estimate, values)))} |")
    return lines


def solved(trajectories: Sequence[Trajectory], samples: int) -> NDArray[np.float64]:
    """The solved share of each question's samples, (questions,)."""
    flags = np.array([t.success and t.failed is None for t in trajectories]).reshape(-1, samples)
    return avg_at_k(flags, samples)


def _interval(value: Estimate) -> str:
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"


PAGE = """# A small language model learns: `gym.mas`

`python -m benchmarks.bench_gym`: SmolLM2-135M, a LoRA adapter for Solver and for Verifier over one base, `chain_sum` of Reasoning Gym with two numbers
of one digit, {steps} steps of 4 questions with 8 trajectories each, seed 0.{overrides}

![Reward over the steps](../../docs/images/gym_curve.png)

| training | first {part} steps | last {part} steps |
|---|---|---|
{curve}

Means over the steps ± twice their standard error.

| test questions | how many | before | after | gained |
|---|---|---|---|---|
{test}

Solved share of four samples a question at temperature 1, with 95 % intervals by bootstrap over questions. There are 200 such sums in all, so many
of the test questions stand in the training set too; the second line leaves them out.

{minutes:.1f} minutes for the run; a step takes {step:.1f} s, of which rollout {rollout:.1f} s and update {learn:.1f} s.
"""


if __name__ == "__main__":
    main()

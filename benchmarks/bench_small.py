"""`lookup.mas` and `arithmetic.mas` under agent-wise and global normalisation, in turn: reward at the start and at the end, the
training's seconds, and per agent the inflation and the gradient's norm before clipping.

    python -m benchmarks.bench_small [--systems lookup arithmetic] [--seeds 0 1 2] [--normalize agent trajectory]

Finished runs in the work folder are not run again. Seconds are those of the steps, without start-up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.runs import ROOT, Run, figure, figures, mean, spread, train_and_evaluate


def main() -> None:
    """Run what is missing and write a table a system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=["lookup", "arithmetic"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--normalize", nargs="+", default=["agent", "trajectory"])
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "bench-small")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "small.md")
    arguments = parser.parse_args()
    tables = []
    for system in arguments.systems:
        runs: dict[str, list[Run]] = {name: [] for name in arguments.normalize}
        for seed in arguments.seeds:
            for name in arguments.normalize:
                overrides = [f"train.normalize={name}", f"train.seed={seed}"]
                run = train_and_evaluate(system, arguments.work / f"{system}-{name}-{seed}", overrides)
                runs[name].append(run)
                print(
                    f"{system}, {name}, seed {seed}: last 20 steps {mean(figures(run, 'reward')[-20:]):.3f}", flush=True
                )
        tables.append("\n".join(_lines(system, runs, arguments.seeds)))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    print("\n\n".join(tables))


def _lines(system: str, runs: dict[str, list[Run]], seeds: list[int]) -> list[str]:
    """The table of one system, a column a method."""
    names = list(runs)
    first = runs[names[0]][0]
    lines = [
        f"`{system}.mas`, {len(first.steps)} steps, seeds {', '.join(map(str, seeds))}: mean ± deviation (each seed)",
        "",
        f"| | {' | '.join(f'`{name}`' for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]

    def row(title: str, of_run: Callable[[Run], float]) -> None:
        lines.append(f"| {title} | {' | '.join(spread([of_run(run) for run in runs[name]]) for name in names)} |")

    row("training reward, first 10 steps", lambda run: mean(figures(run, "reward")[:10]))
    row("training reward, last 20 steps", lambda run: mean(figures(run, "reward")[-20:]))
    row("test questions solved (avg@1)", lambda run: run.evaluation["test"]["avg"]["1"]["value"])
    for agent in first.steps[0]["agents"]:
        row(f"{agent}: inflation, mean", figure(mean, "agents", agent, "inflation"))
        row(f"{agent}: gradient norm, mean", figure(mean, "policies", agent, "grad_norm"))
        row(f"{agent}: gradient norm, maximum", figure(max, "policies", agent, "grad_norm"))
    row("seconds of all steps", lambda run: sum(figures(run, "seconds", "step")))
    return lines


if __name__ == "__main__":
    main()

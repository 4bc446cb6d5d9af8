"""`contrast.mas` under agent-wise and global normalisation, in turn: accuracy on the questions that need a search, and per
agent the gradient's norm before clipping, the inflation and the well-formed share.

    python -m benchmarks.bench_contrast [--seeds 0 1 2] [--normalize agent trajectory] [--out benchmarks/results/contrast.md]

The test set of `contrast.mas` holds only questions that need a search. Finished runs in the work folder are not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.runs import ROOT, Run, figure, figures, mean, spread, train_and_evaluate

TRAINED = ("Search", "Answer")


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--normalize", nargs="+", default=["agent", "trajectory"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "bench-contrast")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "contrast.md")
    arguments = parser.parse_args()
    steps = [f"train.steps={arguments.steps}"] if arguments.steps else []
    runs: dict[str, list[Run]] = {name: [] for name in arguments.normalize}
    for seed in arguments.seeds:  # the methods in turn, so that a drift of the machine meets all
        for name in arguments.normalize:
            overrides = [f"train.normalize={name}", f"train.seed={seed}", *steps]
            runs[name].append(train_and_evaluate("contrast", arguments.work / f"{name}-{seed}", overrides))
            print(
                f"{name}, seed {seed}: avg@1 {runs[name][-1].evaluation['test']['avg']['1']['value']:.3f}", flush=True
            )
    table = "\n".join(_lines(runs, arguments.seeds))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(table + "\n", encoding="utf-8")
    print(table)


def last(values: list[float]) -> float:
    """Mean of the last 20 steps."""
    return mean(values[-20:])


def _lines(runs: dict[str, list[Run]], seeds: list[int]) -> list[str]:
    """The table, a column a method; spread over seeds as mean ± sample deviation (values)."""
    names = list(runs)
    lines = [
        f"`contrast.mas`, {len(runs[names[0]][0].steps)} steps, seeds {', '.join(map(str, seeds))}: mean ± deviation (each seed)",
        "",
        f"| | {' | '.join(f'`{name}`' for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]

    def row(title: str, of_run: Callable[[Run], float]) -> None:
        lines.append(f"| {title} | {' | '.join(spread([of_run(run) for run in runs[name]]) for name in names)} |")

    row("accuracy, questions that need a search", lambda run: run.evaluation["test"]["avg"]["1"]["value"])
    row("training reward, last 20 steps", lambda run: mean(figures(run, "reward")[-20:]))
    for agent in TRAINED:
        row(f"{agent}: gradient norm, mean", figure(mean, "policies", agent, "grad_norm"))
        row(f"{agent}: gradient norm, maximum", figure(max, "policies", agent, "grad_norm"))
        row(f"{agent}: inflation, mean", figure(mean, "agents", agent, "inflation"))
        row(f"{agent}: well-formed, last 20 steps", figure(last, "agents", agent, "valid_share"))
    return lines


if __name__ == "__main__":
    main()

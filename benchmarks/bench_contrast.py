"""`contrast.mas` under agent-wise and global normalisation, in turn: accuracy on the questions that need a search, and per
agent the gradient's norm before clipping, the inflation and the well-formed share.

    python -m benchmarks.bench_contrast [--seeds 0 1 2] [--normalize agent trajectory] [--out benchmarks/results/contrast.md]

The test set of `contrast.mas` holds only questions that need a search. Finished runs in the work folder are not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.runs import ROOT, Figure, Run, figure, mean, table, train_and_evaluate

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
    written = table("contrast", runs, arguments.seeds, _rows())
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(written + "\n", encoding="utf-8")
    print(written)


def last(values: list[float]) -> float:
    """Mean of the last 20 steps."""
    return mean(values[-20:])


def _rows() -> dict[str, Figure]:
    rows: dict[str, Figure] = {
        "accuracy, questions that need a search": lambda run: run.evaluation["test"]["avg"]["1"]["value"],
        "training reward, last 20 steps": figure(last, "reward"),
    }
    for agent in TRAINED:
        rows[f"{agent}: gradient norm, mean"] = figure(mean, "policies", agent, "grad_norm")
        rows[f"{agent}: gradient norm, maximum"] = figure(max, "policies", agent, "grad_norm")
        rows[f"{agent}: inflation, mean"] = figure(mean, "agents", agent, "inflation")
        rows[f"{agent}: well-formed, last 20 steps"] = figure(last, "agents", agent, "valid_share")
    return rows


if __name__ == "__main__":
    main()

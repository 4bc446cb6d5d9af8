"""`lookup.mas` and `arithmetic.mas` under agent-wise and global normalisation, in turn: reward at the start and at the end, the
training's seconds, and per agent the inflation and the gradient's norm before clipping.

    python -m benchmarks.bench_small [--systems lookup arithmetic] [--seeds 0 1 2] [--normalize agent trajectory]

Finished runs in the work folder are not run again. Seconds are those of the steps, without start-up.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from benchmarks.runs import ROOT, Figure, Run, figure, figures, mean, table, train_and_evaluate


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
        tables.append(table(system, runs, arguments.seeds, _rows(run.steps[0]["agents"])))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    print("\n\n".join(tables))


def _rows(agents: Iterable[str]) -> dict[str, Figure]:
    rows: dict[str, Figure] = {
        "training reward, first 10 steps": lambda run: mean(figures(run, "reward")[:10]),
        "training reward, last 20 steps": lambda run: mean(figures(run, "reward")[-20:]),
        "test questions solved (avg@1)": lambda run: run.evaluation["test"]["avg"]["1"]["value"],
    }
    for agent in agents:
        rows[f"{agent}: inflation, mean"] = figure(mean, "agents", agent, "inflation")
        rows[f"{agent}: gradient norm, mean"] = figure(mean, "policies", agent, "grad_norm")
        rows[f"{agent}: gradient norm, maximum"] = figure(max, "policies", agent, "grad_norm")
    return rows | {"seconds of all steps": figure(sum, "seconds", "step")}


if __name__ == "__main__":
    main()

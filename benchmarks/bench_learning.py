"""What normalisation does to training: `contrast.mas` under all five, `lookup.mas` and `arithmetic.mas` under agent-wise and
global statistics, with separate, shared and adapted weights.

    python -m benchmarks.bench_learning [--systems contrast lookup arithmetic] [--jobs 2] [--steps 120] [--work runs/bench-learning]

Methods and seeds take turns, so that a drift of the machine meets all of them; what is finished in the work folder is not run
again. Written: benchmarks/results/learning.md (tables), learning.csv (every run), docs/images/learning.png.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.runs import ROOT, Run, holm, mean, permutation_p, spread, train

NORMALIZATIONS = ("agent", "trajectory", "agent_mean", "agent_std", "turn")
TRAINED = {
    "contrast": ("Search", "Answer"),
    "lookup": ("Verifier", "Search", "Answer"),
    "arithmetic": ("Solver", "Verifier"),
}
NORM = "contrast: Search's gradient norm"
ADAPTER = ("model.lora.rank=16", "model.optimizer.lr=3e-3")  # few weights want a higher rate


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    system: str
    sharing: str
    normalize: str
    seed: int

    @property
    def overrides(self) -> tuple[str, ...]:
        """Its settings, without the length."""
        own = {"none": (), "full": ("train.agent_norms=true",), "adapter": ADAPTER}[self.sharing]
        return f"model.sharing={self.sharing}", f"train.normalize={self.normalize}", f"train.seed={self.seed}", *own

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.system}-{self.sharing}-{self.normalize}-{self.seed}"


def cases(systems: Sequence[str]) -> Iterator[Case]:
    """All runs of these systems, seed by seed."""
    for seed in range(5):
        for normalize in NORMALIZATIONS:
            if "contrast" in systems:
                yield Case("contrast", "none", normalize, seed)
        for system in (name for name in ("lookup", "arithmetic") if name in systems):
            for sharing in ("none", "full", "adapter"):
                for normalize in NORMALIZATIONS[:2]:
                    if seed < (3 if sharing == "none" else 1):
                        yield Case(system, sharing, normalize, seed)


def main() -> None:
    """Run what is missing; write tables, figures of every run, and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--jobs", type=int, default=2, help="runs at once; the models are too small for more than a core"
    )
    parser.add_argument("--systems", nargs="+", choices=TRAINED, default=list(TRAINED))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "bench-learning")
    arguments = parser.parse_args()
    start = time.perf_counter()

    def work(case: Case) -> tuple[Case, Run]:
        steps = (f"train.steps={arguments.steps}", f"train.eval_every={arguments.steps}")
        run = train(case.system, arguments.work / case.name, (*case.overrides, *steps))
        print(f"{time.perf_counter() - start:5.0f} s  {case.name}: reward {reward_at_the_end(run):.3f}", flush=True)
        return case, run

    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = dict(pool.map(work, cases(arguments.systems)))
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    written = report(runs)
    (results / "learning.md").write_text(written, encoding="utf-8")
    write_csv(runs, results / "learning.csv")
    draw(runs, ROOT / "docs" / "images" / "learning.png")
    print(written)


# Figures of a run

Figure = Callable[[Run], float]


def reward_at_the_start(run: Run) -> float:
    """Mean of the first 10 steps."""
    return mean(run.figures("reward")[:10])


def reward_at_the_end(run: Run) -> float:
    """Mean of the last 20 steps."""
    return mean(run.figures("reward")[-20:])


def solved(run: Run) -> float:
    """avg@1 on the test questions after training."""
    return float(run.steps[-1]["eval"]["test"]["avg"]["1"]["value"])


def norms(run: Run, agent: str) -> list[float]:
    """The agent's gradient norm before clipping: its policy's own, or its share of shared weights."""
    policy = run.steps[0]["agents"][agent]["policy"]
    return run.figures("policies", policy, "agent_grad_norm", agent) or run.figures("policies", policy, "grad_norm")


def columns(system: str) -> dict[str, Figure]:
    """What the table of a system shows."""
    found: dict[str, Figure] = {
        "solved, test": solved,
        "reward, first 10": reward_at_the_start,
        "reward, last 20": reward_at_the_end,
    }
    for agent in TRAINED[system]:
        found |= {
            f"{agent}: norm, mean": lambda run, agent=agent: mean(norms(run, agent)),  # type: ignore[misc]
            f"{agent}: norm, max": lambda run, agent=agent: max(norms(run, agent)),  # type: ignore[misc]
            f"{agent}: inflation": lambda run, agent=agent: mean(run.figures("agents", agent, "inflation")),  # type: ignore[misc]
            f"{agent}: well-formed": lambda run, agent=agent: mean(run.figures("agents", agent, "valid_share")[-20:]),  # type: ignore[misc]
        }
    return found


# Tables


def report(runs: Mapping[Case, Run]) -> str:
    """All tables as Markdown, each with what it says."""
    parts = ["Mean ± sample deviation over seeds; norms are before clipping; well-formed: the last 20 steps.\n"]
    for system, sharing in dict.fromkeys((case.system, case.sharing) for case in runs):
        groups = grouped(runs, system, sharing)
        parts += [table(system, sharing, groups), compared(groups)]
    seconds = sum(run.seconds for run in runs.values())
    parts.append(f"{len(runs)} runs, {seconds / 60:.0f} minutes one after the other.\n")
    return "\n".join(parts)


def grouped(runs: Mapping[Case, Run], system: str, sharing: str) -> dict[str, list[Run]]:
    """The runs of a system by normalisation."""
    found: dict[str, list[Run]] = {}
    for case, run in runs.items():
        if (case.system, case.sharing) == (system, sharing):
            found.setdefault(case.normalize, []).append(run)
    return found


def table(system: str, sharing: str, groups: Mapping[str, Sequence[Run]]) -> str:
    """A row a normalisation."""
    figures, seeds = columns(system), len(next(iter(groups.values())))
    lines = [
        f"## `{system}.mas`, sharing = {sharing}, {seeds} {'seeds' if seeds > 1 else 'seed'}\n",
        f"| normalize | {' | '.join(figures)} |",
        "|---" * (len(figures) + 1) + "|",
    ]
    for name, group in groups.items():
        lines.append(f"| `{name}` | {' | '.join(spread([of(run) for run in group]) for of in figures.values())} |")
    return "\n".join(lines) + "\n"


def compared(groups: Mapping[str, Sequence[Run]]) -> str:
    """Whether the others differ from `agent` beyond seeds, in what is solved and in the reward at the end."""
    seeds = len(groups["agent"])
    if seeds < 2:
        return "One seed: no statement about a difference.\n"
    least = permutation_p(range(seeds), range(100, 100 + seeds)) * (len(groups) - 1)
    lines = [
        f"Permutation tests against `agent`, corrected by Holm for the {len(groups) - 1} of a figure; with so many seeds no p "
        f"is below {least:.3f}.\n"
    ]
    for figure, of in {"solved, test": solved, "reward, last 20": reward_at_the_end}.items():
        agent, *others = ([of(run) for run in group] for group in groups.values())
        corrected = holm([permutation_p(agent, other) for other in others])
        for name, other, p in zip(list(groups)[1:], others, corrected, strict=True):
            verdict = "differ" if p <= 0.05 else "do not differ beyond seed noise"
            lines.append(
                f"- {figure}: `agent` - `{name}` {mean(agent) - mean(other):+.3f}, p = {p:.3f}: they {verdict}."
            )
    return "\n".join(lines) + "\n"


def write_csv(runs: Mapping[Case, Run], file: Path) -> None:
    """A row a run, with every figure."""
    names = list(dict.fromkeys(name for system in TRAINED for name in columns(system)))
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["system", "sharing", "normalize", "seed", "seconds", *names])
        for case, run in runs.items():
            of = columns(case.system)
            values = [f"{of[name](run):.4f}" if name in of else "" for name in names]
            writer.writerow([case.system, case.sharing, case.normalize, case.seed, f"{run.seconds:.0f}", *values])


# The picture


def draw(runs: Mapping[Case, Run], file: Path) -> None:
    """The reward on every system with separate weights, and on `contrast.mas` the gradient norm of its Search."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {}
    for system in dict.fromkeys(case.system for case in runs):
        found = grouped(runs, system, "none")
        panels[f"{system}: reward"] = {n: [run.figures("reward") for run in group] for n, group in found.items()}
        if system == "contrast":
            panels[NORM] = {n: [norms(run, "Search") for run in group] for n, group in found.items()}
    rows = (len(panels) + 1) // 2
    figure, axes = pyplot.subplots(rows, 2, figsize=(10, 3.25 * rows), layout="constrained", squeeze=False)
    for place, (title, groups) in zip(axes.flat, panels.items(), strict=False):
        curves(place, title, groups)
    if NORM in panels:
        axes[0, 1].set_yscale("log")
    axes[0, 0].legend(frameon=False)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def curves(axes: Any, title: str, groups: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """A method's mean over seeds, smoothed over 10 steps, in a band of its seeds' range."""
    for name, group in groups.items():
        smooth = [[mean(values[max(0, end - 10) : end]) for end in range(1, len(values) + 1)] for values in group]
        columns = list(zip(*smooth, strict=False))
        x = range(1, len(columns) + 1)
        axes.fill_between(x, [min(c) for c in columns], [max(c) for c in columns], alpha=0.12, linewidth=0)
        axes.plot(x, [mean(column) for column in columns], label=name)
    axes.set(title=title, xlabel="step")
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()

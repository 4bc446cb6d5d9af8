"""Training runs for benchmarks: each is the command a user would type, in a process of its own; read back from its run folder."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DRMASC = [sys.executable, "-m", "drmas_dsl.cli.main"]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its steps as `metrics.jsonl` holds them, its evaluation by dataset, and its wall-clock seconds."""

    steps: tuple[Mapping[str, Any], ...]
    evaluation: Mapping[str, Any]
    seconds: float


def train_and_evaluate(system: str, folder: Path, overrides: Sequence[str]) -> Run:
    """Train `graphs/SYSTEM.mas` with overrides into `folder`, then evaluate it; an existing finished run is read again."""
    file = str(ROOT / "graphs" / f"{system}.mas")
    settings = [word for override in overrides for word in ("--set", override)]
    clock = folder / "seconds"
    if not clock.exists():
        start = time.perf_counter()
        _run("train", file, "--run", str(folder), *settings)
        seconds = time.perf_counter() - start
        _run("eval", file, "--run", str(folder), *settings)
        clock.write_text(str(seconds))
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return Run(tuple(steps), json.loads((folder / "eval.json").read_text()), float(clock.read_text()))


def _run(*words: str) -> None:
    done = subprocess.run([*DRMASC, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"drmasc {' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def figures(run: Run, *path: str) -> list[float]:
    """One figure over the steps where it was measured, e.g. ("agents", "Search", "inflation")."""
    found = []
    for step in run.steps:
        value: Any = step
        for key in path:
            value = (value or {}).get(key)
        if value is not None and math.isfinite(value):
            found.append(float(value))
    return found


Figure = Callable[[Run], float]


def figure(reduce: Callable[[list[float]], float], *path: str) -> Figure:
    """A function of a run: one figure over its steps, reduced to a number."""
    return lambda run: reduce(figures(run, *path))


def spread(values: Sequence[float]) -> str:
    """Mean and sample deviation over seeds, and the values themselves."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.3f} ± {deviation:.3f} ({' '.join(f'{value:.2f}' for value in values)})"


def mean(values: Sequence[float]) -> float:
    """Mean, NaN of nothing."""
    return statistics.fmean(values) if values else math.nan


def table(system: str, runs: Mapping[str, Sequence[Run]], seeds: Sequence[int], rows: Mapping[str, Figure]) -> str:
    """A Markdown table of a system: a column a method, a row a figure, each with its spread over the seeds."""
    steps = len(next(iter(runs.values()))[0].steps)
    lines = [
        f"`{system}.mas`, {steps} steps, seeds {', '.join(map(str, seeds))}: mean ± deviation (each seed)",
        "",
        f"| | {' | '.join(f'`{name}`' for name in runs)} |",
        "|---" * (len(runs) + 1) + "|",
    ]
    for title, of_run in rows.items():
        lines.append(f"| {title} | {' | '.join(spread([of_run(run) for run in group]) for group in runs.values())} |")
    return "\n".join(lines)

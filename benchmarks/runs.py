"""Training runs for benchmarks: each is the command a user would type, in a process of its own; read back from its run folder."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DRMASC = [sys.executable, "-m", "drmas_dsl.cli.main"]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its steps as `metrics.jsonl` holds them, with the evaluation in the last one, and its wall-clock seconds."""

    steps: tuple[Mapping[str, Any], ...]
    seconds: float

    def figures(self, *path: str) -> list[float]:
        """One figure over the steps where it was measured, e.g. ("agents", "Search", "inflation")."""
        found = []
        for step in self.steps:
            value: Any = step
            for key in path:
                value = (value or {}).get(key)
            if value is not None and math.isfinite(value):
                found.append(float(value))
        return found


def train(system: str, folder: Path, overrides: Sequence[str]) -> Run:
    """Train `graphs/SYSTEM.mas` with overrides into `folder`; a run that is finished there is read again.

    Raises:
        RuntimeError: the command failed, and the message holds what it said; or what is there is of other overrides.
    """
    words = ["train", str(ROOT / "graphs" / f"{system}.mas"), "--run", str(folder)]
    words += [word for override in overrides for word in ("--set", override)]
    clock = folder / "seconds"
    if clock.exists() and (there := json.loads((folder / "run.json").read_text())["overrides"]) != list(overrides):
        raise RuntimeError(f"{folder} holds a run with {there}, not {list(overrides)}: remove it")
    if not clock.exists():
        start = time.perf_counter()
        done = subprocess.run([*DRMASC, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"drmasc {' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        clock.write_text(str(time.perf_counter() - start))
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return Run(tuple(steps), float(clock.read_text()))


def mean(values: Sequence[float]) -> float:
    """Mean, NaN of nothing."""
    return statistics.fmean(values) if values else math.nan


def spread(values: Sequence[float]) -> str:
    """Mean and, of several, sample deviation."""
    known = [value for value in values if math.isfinite(value)]
    deviation = f" ± {statistics.stdev(known):.3f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.3f}{deviation}" if known else "-"


def permutation_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided exact permutation test of equal means: the share of all ways to deal the values into two such groups that
    separate them at least as far."""
    values = [*first, *second]
    total, size = sum(values), len(first)

    def distance(part: float) -> float:
        return abs(part / size - (total - part) / (len(values) - size))

    seen = distance(sum(first))
    dealt = [distance(sum(part)) for part in combinations(values, size)]
    return sum(each >= seen - 1e-12 for each in dealt) / len(dealt)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values of several tests, corrected for their number (Holm 1979)."""
    corrected, least = [0.0] * len(ps), 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        least = max(least, min(1.0, ps[index] * (len(ps) - place)))
        corrected[index] = least
    return corrected

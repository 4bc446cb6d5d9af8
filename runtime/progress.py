"""Live progress of a run: a bar and a small table per agent on a terminal, a plain line now and then elsewhere.

It shows metrics and computes none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

COLUMNS = (
    ("reward", "reward"),
    ("score", "score"),
    ("calls_per_trajectory", "calls"),
    ("valid_share", "valid"),
    ("response_tokens", "tokens"),
    ("inflation", "inflation"),
)


Show = Callable[[int, Mapping[str, Any]], None]  # takes a step's number and metrics


@contextmanager
def progress(console: Console, title: str, steps: int, start: int = 0) -> Iterator[Show]:
    """Progress over `steps` steps, `start` of them done already."""
    if not console.is_terminal:
        yield _lines(console, steps)
        return
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    )
    task = bar.add_task(title, total=steps, completed=start)
    with Live(bar, console=console, refresh_per_second=4) as live:

        def show(step: int, metrics: Mapping[str, Any]) -> None:
            bar.update(task, completed=step, description=f"{title}  reward {number(metrics['reward'])}")
            live.update(Group(bar, agent_table(metrics)))

        yield show


def _lines(console: Console, steps: int) -> Show:
    every = max(1, steps // 20)

    def show(step: int, metrics: Mapping[str, Any]) -> None:
        if step % every == 0 or step in (1, steps):
            agents = "  ".join(f"{name} {number(figures['score'])}" for name, figures in metrics["agents"].items())
            console.print(f"step {step}/{steps}  reward {number(metrics['reward'])}  score: {agents}", highlight=False)

    return show


def agent_table(metrics: Mapping[str, Any]) -> Table:
    """One row per agent: what it earned, how often it acted, how well-formed it was, its policy's gradient norm; and the
    policy's name where one is not its agent's."""
    agents = metrics["agents"]
    shared = any(figures["policy"] != name for name, figures in agents.items())
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for title in ("agent", *(title for _, title in COLUMNS), "grad norm", *(["policy"] if shared else [])):
        table.add_column(title, no_wrap=True)
    for name, figures in agents.items():
        policy = figures["policy"]
        norm = metrics["policies"].get(policy, {}).get("grad_norm")
        cells = [*(number(figures.get(key)) for key, _ in COLUMNS), number(norm)]
        table.add_row(name, *cells, *([policy] if shared else []))
    return table


def number(value: float | None) -> str:
    """A figure for people; a dash where there is nothing to show."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"

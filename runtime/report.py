"""What a finished run shows: the learning curve as a picture and in the terminal, and the last steps agent by agent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from runtime.progress import agent_table, number

WINDOW = 10


def report(console: Console, title: str, steps: Sequence[Mapping[str, Any]], picture: Path) -> None:
    """Print the curve and a table of the last steps, and save the curve; `steps` are lines of `metrics.jsonl`."""
    curve = [line["reward"] for line in steps]
    if not any(value is not None for value in curve):
        console.print("No step was finished: there is no curve to show.")
        return
    _print_curve(console, title, curve)
    last = steps[-2 * WINDOW :]
    console.print(f"Mean of the last {len(last)} steps, agent by agent:")
    console.print(agent_table(mean_of(last)))
    first, final = mean_reward(steps[:WINDOW]), mean_reward(last)
    console.print(
        f"Mean reward: {number(first)} over the first {min(WINDOW, len(steps))} steps, {number(final)} over the last {len(last)}.",
        highlight=False,
    )
    save_curve(title, steps, picture)
    console.print(f"Learning curve: {picture}", highlight=False)


def mean_reward(steps: Sequence[Mapping[str, Any]]) -> float:
    """Mean of the steps' rewards, without those where nothing was measured."""
    values = [line["reward"] for line in steps if line["reward"] is not None]
    return sum(values) / len(values) if values else math.nan


def mean_of(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of every figure over the steps, nested as they are."""
    merged: dict[str, Any] = {}
    for key, value in steps[-1].items():
        values = [line[key] for line in steps if line.get(key) is not None]
        if isinstance(value, Mapping):
            merged[key] = mean_of(values)
        elif all(isinstance(number, (int, float)) for number in values):
            merged[key] = sum(values) / len(values) if values else None
        else:
            merged[key] = value
    return merged


def moving_mean(values: Sequence[float | None], window: int = WINDOW) -> list[float]:
    """Mean of the last `window` values at every step, gaps skipped."""
    means = []
    for end in range(1, len(values) + 1):
        known = [value for value in values[max(0, end - window) : end] if value is not None]
        means.append(sum(known) / len(known) if known else math.nan)
    return means


def save_curve(title: str, steps: Sequence[Mapping[str, Any]], picture: Path) -> None:
    """The reward of the system and the scores of its agents over the steps, as a PNG or SVG by the file's ending."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    x = [line["step"] for line in steps]
    reward = [line["reward"] for line in steps]
    axes.plot(x, [math.nan if value is None else value for value in reward], color="0.8", linewidth=1)
    axes.plot(x, moving_mean(reward), color="black", linewidth=2, label=f"reward (mean of {WINDOW} steps)")
    for agent in steps[-1]["agents"]:
        axes.plot(
            x, moving_mean([line["agents"][agent]["score"] for line in steps]), linewidth=1, label=f"{agent}, score"
        )
    axes.set(title=title, xlabel="step", ylabel="reward")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)


def _print_curve(console: Console, title: str, curve: Sequence[float | None]) -> None:
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(console.width, 80) - 1, 16)
    plotext.plot(range(1, len(curve) + 1), moving_mean(curve), marker="braille")
    known = [value for value in curve if value is not None]
    plotext.ylim(min(0.0, *known), max(1.0, *known))
    plotext.title(f"{title}: reward, mean of {WINDOW} steps")
    plotext.xlabel("step")
    console.print(plotext.uncolorize(plotext.build()), markup=False, highlight=False, soft_wrap=True)

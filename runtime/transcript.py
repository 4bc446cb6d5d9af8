"""A trajectory for people to read: who said what, which tools were asked, and what came out."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule

from runtime.records import Trajectory, Turn


def print_trajectory(console: Console, trajectory: Trajectory) -> None:
    """Print every event in order, then result and reward, or why it failed."""
    for event in trajectory.events:
        if isinstance(event, Turn):
            flags = [] if event.valid else ["did not parse"]
            flags += ["took a default"] if event.defaulted else []
            flags += ["cut at max_tokens"] if event.truncated else []
            notes = f" ({', '.join(flags)})" if flags else ""
            console.print(Rule(f"[bold]{escape(event.agent)}[/bold]{notes}", align="left"))
            console.print(event.text, markup=False, highlight=False)
            for name, value in event.outputs.items():
                console.print(f"  {name} = {value!r}", markup=False, style="cyan", highlight=False)
        else:
            console.print(Rule(f"{escape(event.tool)}", align="left", style="dim"))
            console.print(f"  {dict(event.args)} -> {event.result}", markup=False, style="dim", highlight=False)
    console.print(Rule(style="dim"))
    if trajectory.failed is not None:
        console.print(f"failed: {trajectory.failed}", style="red", markup=False)
        return
    console.print(f"result = {trajectory.result!r}", markup=False)
    console.print(f"reward = {trajectory.reward:g}   success = {trajectory.success}", markup=False)

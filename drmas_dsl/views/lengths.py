"""The lengths of prompts as a table: what `drmasc check --budget` prints."""

from __future__ import annotations

from collections.abc import Sequence

from drmas_dsl.graph.budget import Budget

_HEAD = ("agent", "text", "outputs", "history", "max_tokens", "total", "context", "not counted")


def draw(budgets: Sequence[Budget]) -> str:
    """One line for each agent that is called: the longest prompt on any path, in estimated tokens."""
    rows = [_HEAD]
    for one in budgets:
        turns = f" ({one.turns} turn{'s' if one.turns != 1 else ''})" if one.turns else ""
        context = "?" if one.context is None else str(one.context)
        over = " !" if one.context is not None and one.total > one.context else ""
        numbers = (str(one.text), str(one.reads), f"{one.history}{turns}", str(one.max_tokens), f"{one.total}{over}")
        rows.append((one.agent, *numbers, context, ", ".join(one.unknown) or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"

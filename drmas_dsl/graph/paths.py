"""Paths through a walk, found and put into words for the notes of findings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import groupby

import networkx as nx

from drmas_dsl.graph.execution import MORE
from drmas_dsl.graph.walks import Path, Walk
from drmas_dsl.graph.wording import node_text, text_of

Ways = list[list[tuple[int, Path]]]

_STEPS = 12  # of a path that is shown; the middle of a longer one is left out


def path_to(walk: Walk, state: int) -> tuple[Path, ...]:
    """The shortest way from the start to a state, as the edges of each of its steps."""
    return _search(walk.backwards(), state, lambda source, path: True)


def unbound_path(ways: Ways, state: int, unbound: Callable[[int, Path], bool]) -> tuple[Path, ...]:
    """The shortest way from the start to a state along ways on which a name stays unbound."""
    return _search(ways, state, unbound)


def _search(ways: Ways, state: int, allowed: Callable[[int, Path], bool]) -> tuple[Path, ...]:
    """The shortest way to a state from state 0, searched backwards."""
    onward: dict[int, tuple[int, Path] | None] = {state: None}
    queue = deque([state])
    while queue and 0 not in onward:
        target = queue.popleft()
        for source, path in ways[target]:
            if source not in onward and allowed(source, path):
                onward[source] = (target, path)
                queue.append(source)
    found: list[Path] = []
    step = onward.get(0)
    while step is not None:
        found.append(step[1])
        step = onward[step[0]]
    return tuple(found)


def describe(graph: nx.MultiDiGraph, path: tuple[Path, ...]) -> str:
    """A path in words: what happens on it and which conditions hold."""
    parts: list[list[str]] = [[]]  # a new part with every iteration
    for source, order in (edge for edges in path for edge in edges):
        data = graph.nodes[source]
        text = node_text(data)
        if data["kind"] == "branch":
            parts[-1] += _decisions(graph, source, order)
        elif data["kind"] == "loop":
            parts.append([f"the end of `{text}`" if order else f"`{text}`"])
        elif text:
            parts[-1].append(f"`{text}`")
    steps = [step for part in _folded(parts) for step in part]
    if len(steps) > _STEPS:
        steps = [*steps[: _STEPS // 2], "…", *steps[-_STEPS // 2 :]]
    return " -> ".join(steps)


def _folded(parts: list[list[str]]) -> list[list[str]]:
    """The parts, those that are equal and follow each other as one."""
    found: list[list[str]] = []
    for part, same in groupby(parts):
        times = len(list(same))
        found.append(part if times == 1 else [f"{times} times ({' -> '.join(part)})"])
    return found


def _decisions(graph: nx.MultiDiGraph, source: str, order: int) -> list[str]:
    """The conditions of a branch up to the edge that is taken."""
    found = []
    for _, _, data in sorted(graph.out_edges(source, data=True), key=lambda edge: edge[2]["order"]):
        condition = data["condition"]
        if condition is None or condition == MORE or data["order"] > order:
            break
        word = "true" if data["order"] == order else "false"
        found.append(f"`{text_of(condition)}` is {word}")
    return found

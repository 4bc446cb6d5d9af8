"""The ways that a trajectory can take through a graph, and a forward dataflow over them.

`walk_of` makes the graph of walk states. In the plain form every node has one state. In the fine form a state also
knows whether the iteration of each loop around it is the first, a middle one or the last, so that `loop.last` and
`loop.index == 1` cut off ways that no trajectory takes. In both, a loop is left from the end of its body only. `forward`
spreads facts, the bits of an int, along the ways until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import networkx as nx

from drmas_dsl.graph.conditions import Iteration, reads_loop, truth
from drmas_dsl.graph.settings import Expression

EdgeKey = tuple[str, int]  # an edge by its source and `order`
Phases = tuple[Iteration | None, ...]  # of the loops around a node, outermost first; None is any iteration
State = tuple[str, Phases]
Path = tuple[EdgeKey, ...]

_SPLIT_DEPTH = 3  # loops inside each other that are told apart by iteration: at most 3^3 states a node
_SPLIT_NODES = 1000  # a larger graph tells apart one level at most, to stay within a second


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the graph, as its source sees it."""

    order: int
    target: str
    condition: Expression | None


@dataclass(slots=True)
class Walk:
    """States by number, 0 the start. `ways[i]`: target states, each with the edges taken to get there (more than one
    where a loop is left on the way)."""

    states: list[State] = field(default_factory=list)
    ways: list[list[tuple[int, Path]]] = field(default_factory=list)

    def by_node(self) -> dict[str, list[int]]:
        """The states of each node that is reached."""
        found: dict[str, list[int]] = {}
        for number, (node, _) in enumerate(self.states):
            found.setdefault(node, []).append(number)
        return found

    def order(self) -> list[int]:
        """The states in reverse postorder: only ways back to the head of a loop run against it."""
        return _reverse_postorder(self)

    def backwards(self) -> list[list[tuple[int, Path]]]:
        """The ways that lead to each state."""
        found: list[list[tuple[int, Path]]] = [[] for _ in self.states]
        for source, ways in enumerate(self.ways):
            for target, path in ways:
                found[target].append((source, path))
        return found


def edges_of(graph: nx.MultiDiGraph) -> dict[str, list[Edge]]:
    """The edges of each node in order."""
    found: dict[str, list[Edge]] = {node: [] for node in graph}
    for source, target, data in graph.edges(data=True):
        found[source].append(Edge(data["order"], target, data["condition"]))
    for edges in found.values():
        edges.sort(key=lambda edge: edge.order)
    return found


def walk_of(graph: nx.MultiDiGraph, edges: Mapping[str, list[Edge]], fine: bool) -> Walk:
    """The walk states that can be reached from the start on; `edges` are those of the graph."""
    return _Builder(graph, edges, _split(graph, edges) if fine else frozenset()).walk()


def taken_edges(graph: nx.MultiDiGraph) -> set[EdgeKey]:
    """The edges that a trajectory can take; the end of a loop that is always left before is none."""
    return {key for ways in walk_of(graph, edges_of(graph), fine=True).ways for _, path in ways for key in path}


def _split(graph: nx.MultiDiGraph, edges: Mapping[str, list[Edge]]) -> frozenset[str]:
    """The heads of the loops whose iterations are told apart: in a large graph only those that ask for them."""
    small = len(graph) <= _SPLIT_NODES
    asked = {
        data["loops"][-1]
        for node, data in graph.nodes(data=True)
        if data["kind"] == "branch"
        and data["loops"]
        and any(edge.condition is not None and reads_loop(edge.condition) for edge in edges[node])
    }
    chosen: set[str] = set()
    for node, data in graph.nodes(data=True):  # outer heads come before inner ones
        if data["kind"] == "loop" and (small or node in asked):
            around = sum(head in chosen and graph.nodes[head]["max"] > 1 for head in data["loops"])
            if around < (_SPLIT_DEPTH if small else 1):
                chosen.add(node)
    return frozenset(chosen)


class _Builder:
    def __init__(self, graph: nx.MultiDiGraph, edges: Mapping[str, list[Edge]], split: frozenset[str]) -> None:
        self.nodes = graph.nodes
        self.edges = edges
        self.split = split

    def walk(self) -> Walk:
        walk = Walk([("n0", ())], [[]])
        numbers: dict[State, int] = {walk.states[0]: 0}
        number = 0
        while number < len(walk.states):
            node, phases = walk.states[number]
            for edge in self.taken(node, phases):
                for state, path in self.arrive(node, edge, phases):
                    if state not in numbers:
                        numbers[state] = len(walk.states)
                        walk.states.append(state)
                        walk.ways.append([])
                    walk.ways[number].append((numbers[state], path))
            number += 1
        return walk

    def taken(self, node: str, phases: Phases) -> Iterator[Edge]:
        """The edges that can be taken from a state (a loop is left at the end of its body, see `arrive`)."""
        edges = self.edges[node]
        if self.nodes[node]["kind"] != "branch":
            yield from edges[:1] if self.nodes[node]["kind"] == "loop" else edges
            return
        iteration = phases[-1] if phases else None
        for edge in edges:
            holds = None
            if edge.condition is not None and iteration is not None and reads_loop(edge.condition):
                holds = truth(edge.condition, iteration)
            if holds is not False:
                yield edge
            if holds is True:
                return

    def arrive(self, source: str, edge: Edge, phases: Phases) -> Iterator[tuple[State, Path]]:
        """The states at the end of an edge: another iteration of a loop, or what comes after its last one."""
        path: Path = ((source, edge.order),)
        target = self.nodes[edge.target]
        depth = len(target["loops"])
        outer = phases[:depth]
        if target["kind"] != "loop":
            yield (edge.target, outer), path
        elif edge.target not in self.nodes[source]["loops"]:
            yield (edge.target, (*outer, self.first(edge.target))), path
        else:
            again, leaves = self.after(edge.target, phases[depth])
            for iteration in again:
                yield (edge.target, (*outer, iteration)), path
            if leaves:
                for end in self.edges[edge.target][1:]:
                    for state, rest in self.arrive(edge.target, end, outer):
                        yield state, path + rest

    def first(self, head: str) -> Iteration | None:
        return Iteration(1, 1, self.nodes[head]["max"]) if head in self.split else None

    def after(self, head: str, iteration: Iteration | None) -> tuple[list[Iteration | None], bool]:
        """The iterations that can follow one, and whether the loop can be left after it."""
        if iteration is None:
            return [None], True
        top = iteration.max
        if iteration.low == top:
            return [], True
        if iteration.low == 1:
            return [Iteration(2, top - 1, top) if top > 2 else Iteration(2, 2, 2)], False
        last = Iteration(top, top, top)
        return [last] if iteration.low == iteration.high else [iteration, last], False


def forward(
    walk: Walk, entry: int, transfer: Callable[[int, int], int], along: Callable[[Path, int], int]
) -> list[int]:
    """The facts before each state: those of all ways that lead to it, joined by `or`.

    Args:
        walk: The states.
        entry: The facts at the start.
        transfer: Facts behind a state from those before it.
        along: Facts at the end of a way from those at its beginning.
    """
    facts = [0] * len(walk.states)
    facts[0] = entry
    order = walk.order()
    position = [0] * len(order)
    for place, state in enumerate(order):
        position[state] = place
    dirty = [False] * len(order)
    dirty[0] = True
    again = True
    while again:  # once, and once more for every loop inside another whose facts changed
        again = False
        for state in order:
            if not dirty[state]:
                continue
            dirty[state] = False
            behind = transfer(state, facts[state])
            for target, path in walk.ways[state]:
                joined = facts[target] | along(path, behind)
                if joined != facts[target]:
                    facts[target] = joined
                    dirty[target] = True
                    again = again or position[target] <= position[state]
    return facts


def _reverse_postorder(walk: Walk) -> list[int]:
    seen = [False] * len(walk.states)
    seen[0] = True
    done: list[int] = []
    stack = [(0, iter(walk.ways[0]))]
    while stack:
        state, ways = stack[-1]
        for target, _ in ways:
            if not seen[target]:
                seen[target] = True
                stack.append((target, iter(walk.ways[target])))
                break
        else:
            done.append(state)
            stack.pop()
    return done[::-1]

"""The blocks of a flow, found again in its graph: what stands in which loop, branch or parallel part.

The graph has edges only; people read blocks. A flow is structured, so that every branch's arms meet at the one node that
the branch immediately dominates and that is reached in more than one way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from drmas_dsl.graph.execution import ordered_edges, start_of
from drmas_dsl.graph.settings import Expression


@dataclass(frozen=True, slots=True)
class Step:
    """A call, a tool call, an assignment or a return."""

    node: str


@dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    word: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A branch: conditions (None for `else`) with their blocks."""

    node: str
    arms: tuple[tuple[Expression | None, Block], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop's head and its body."""

    node: str
    body: Block


@dataclass(frozen=True, slots=True)
class Parallel:
    """A fork, its branches, and where they join."""

    node: str
    join: str
    branches: tuple[Block, ...]


_DEEP = 12  # blocks inside each other, from which on a loop's `else` is told as a `continue` before it

Item = Step | Jump | Choice | Loop | Parallel
Block = tuple[Item, ...]


def structure(graph: nx.MultiDiGraph) -> Block:
    """The flow as blocks."""
    return _Structure(graph).block(ordered_edges(graph, start_of(graph))[0][0], None)[0]


class _Structure:
    def __init__(self, graph: nx.MultiDiGraph) -> None:
        self.nodes = graph.nodes
        self.edges = {node: ordered_edges(graph, node) for node in graph}
        self.after = dict(self._exits())
        self.meets = self._meets(start_of(graph))
        self.depth = 0

    def loop_of(self, node: str) -> str | None:
        loops = self.nodes[node]["loops"]
        return loops[-1] if loops else None

    def jump(self, source: str, target: str) -> str | None:
        """The word for an edge that leaves the innermost loop's iteration."""
        head = self.loop_of(source)
        if head is None:
            return None
        if target == head:
            return "continue"
        return None if head in self.nodes[target]["loops"] else "break"

    def _exits(self) -> Iterator[tuple[str, str]]:
        """Each loop's head with the node behind the loop; an edge may leave several loops at once."""
        for node, edges in self.edges.items():
            for number, (target, _) in enumerate(edges):
                if self.nodes[node]["kind"] == "loop" and number > 0:
                    yield node, target
                stays = (target, *self.nodes[target]["loops"])
                yield from ((head, target) for head in self.nodes[node]["loops"] if head not in stays)

    def _meets(self, start: str) -> dict[str, str]:
        """For each branch, the node where its arms meet."""
        forward = nx.DiGraph()
        arrivals: dict[str, int] = {}
        forward.add_node(start)
        for node, edges in self.edges.items():
            targets = [target for target, _ in edges if self.jump(node, target) is None]
            if node in self.after:
                behind = self.after[node]
                targets = [*targets[:1], *([behind] if self.jump(node, behind) is None else [])]
            for target in targets:
                forward.add_edge(node, target)
                arrivals[target] = arrivals.get(target, 0) + 1
        found: dict[str, str] = {}
        for node, dominator in nx.immediate_dominators(forward, start).items():
            if arrivals.get(node, 0) > 1 and dominator is not None and self.nodes[dominator]["kind"] == "branch":
                found[dominator] = node
        return found

    def block(self, node: str | None, stop: str | None) -> tuple[Block, bool]:
        """The items from a node on, until `stop` or a jump; whether `stop` was reached."""
        items: list[Item] = []
        while node is not None and node != stop:
            item, target = self.item(node, stop)
            items.append(item)
            source = item.join if isinstance(item, Parallel) else node
            word = None if target is None or target == stop else self.jump(source, target)
            if word is not None:
                return (*items, Jump(word)), False
            node = target
        return tuple(items), node is not None

    def item(self, node: str, stop: str | None) -> tuple[Item, str | None]:
        """The item that begins at a node, and the node behind it."""
        edges = self.edges[node]
        match self.nodes[node]["kind"]:
            case "branch":
                return self.choice(node, stop)
            case "loop":
                return Loop(node, self.follow(node, edges[0][0], node)[0]), self.after.get(node)
            case "fork":
                join = self.nodes[node]["join"]
                branches = tuple(self.block(target, join)[0] for target, _ in edges)
                return Parallel(node, join, branches), next((target for target, _ in self.edges[join]), None)
        return Step(node), next((target for target, _ in edges), None)

    def follow(self, source: str, target: str, stop: str | None) -> tuple[Block, bool]:
        """The block at the end of an edge, and whether it reaches `stop`."""
        if target == stop:
            return (), True
        word = self.jump(source, target)
        if word is not None:
            return (Jump(word),), False
        self.depth += 1
        found = self.block(target, stop)
        self.depth -= 1
        return found

    def choice(self, node: str, stop: str | None) -> tuple[Choice, str | None]:
        """A branch, and the node behind it. Where all arms but `else` leave, what follows needs no `else`."""
        meet = self.meets.get(node)
        tests = [(c, *self.follow(node, target, meet or stop)) for target, c in self.edges[node] if c is not None]
        rest = next((target for target, c in self.edges[node] if c is None), None)
        arms = [(condition, block) for condition, block, _ in tests]
        reached = any(reaches for *_, reaches in tests)
        if rest in (None, meet or stop):
            return Choice(node, tuple(arms)), meet or (stop if reached or rest is not None else None)
        assert rest is not None
        if meet is None and not reached:
            return Choice(node, tuple(arms)), rest
        empty = not any(block for _, block, reaches in tests if reaches)
        if meet is None and stop == self.loop_of(node) and (empty or self.depth > _DEEP):
            again = [(c, (*block, Jump("continue")) if reaches else block) for c, block, reaches in tests]
            return Choice(node, tuple(again)), rest
        orelse = self.follow(node, rest, meet or stop)[0]
        return Choice(node, (*arms, (None, orelse))), meet or stop

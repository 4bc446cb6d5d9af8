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
            kind = self.nodes[node]["kind"]
            if kind == "branch":
                node, more = self.choice(node, stop, items)
                if not more:
                    return tuple(items), node == stop
                continue
            if kind == "loop":
                items.append(Loop(node, self.follow(node, self.edges[node][0][0], node)[0]))
                target = self.after.get(node)
            elif kind == "fork":
                join = self.nodes[node]["join"]
                branches = tuple(self.block(target, join)[0] for target, _ in self.edges[node])
                items.append(Parallel(node, join, branches))
                node = join
                target = self.edges[join][0][0] if self.edges[join] else None
            else:
                items.append(Step(node))
                target = self.edges[node][0][0] if self.edges[node] else None
            word = None if target is None or target == stop else self.jump(node, target)
            if word is not None:
                return (*items, Jump(word)), False
            node = target
        return tuple(items), node is not None

    def follow(self, source: str, target: str, stop: str | None) -> tuple[Block, bool]:
        """The block at the end of an edge."""
        if target == stop:
            return (), True
        word = self.jump(source, target)
        return ((Jump(word),), False) if word is not None else self.block(target, stop)

    def choice(self, node: str, stop: str | None, items: list[Item]) -> tuple[str | None, bool]:
        """Add a branch to the items; gives the node to go on with, and whether to."""
        edges = self.edges[node]
        meet = self.meets.get(node)
        arms = [(condition, *self.follow(node, target, meet or stop)) for target, condition in edges]
        if meet is not None:
            shown = [(condition, block) for condition, block, _ in arms if condition is not None or block]
            items.append(Choice(node, tuple(shown)))
            return meet, True
        target, last = edges[-1]
        others = arms[:-1] if last is None else arms
        if last is None and all(not reached or not block for _, block, reached in others):
            # All others leave: what follows needs no `else`.
            word = Jump("continue")
            goes_on = target != stop
            shown = [(c, (word,) if reached and goes_on else block) for c, block, reached in others]
            if any(block for _, block in shown) and not (any(r for *_, r in others) and stop != self.loop_of(node)):
                items.append(Choice(node, tuple(shown)))
                word_on = None if target == stop else self.jump(node, target)
                if word_on is not None:
                    items.append(Jump(word_on))
                    return None, False
                return target, goes_on
        items.append(Choice(node, tuple((c, block) for c, block, _ in arms if c is not None or block)))
        return (stop if any(reached for *_, reached in arms) else None), False

"""What is bound where: for each agent and variable, whether it may still be unbound, may hold one value, may hold a list.

The facts that typing and the analyses of reads share, as three bits per name in an int, spread by `walks.forward`. After
a join everything that a branch bound is as that branch left it; after `parallel N` it is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import networkx as nx

from drmas_dsl.graph.conditions import bound_when
from drmas_dsl.graph.walks import Edge, EdgeKey, Path, Walk, forward


@dataclass(frozen=True, slots=True)
class Names:
    """The agents and variables that the flow binds, each with its bit; the bits for "one value" stand `len(numbers)` higher, those
    for "a list" twice that."""

    numbers: Mapping[str, int]

    def mask(self, names: frozenset[str]) -> int:
        """The bits of the names, as unbound."""
        return sum(1 << self.numbers[name] for name in names if name in self.numbers)

    def unbound(self, facts: int, name: str) -> bool:
        """Whether some way leaves the name unbound."""
        return name not in self.numbers or bool(facts >> self.numbers[name] & 1)

    def one(self, facts: int, name: str) -> bool:
        """Whether some way binds it to one value."""
        return name in self.numbers and bool(facts >> (self.numbers[name] + len(self.numbers)) & 1)

    def list(self, facts: int, name: str) -> bool:
        """Whether some way makes a list of it."""
        return name in self.numbers and bool(facts >> (self.numbers[name] + 2 * len(self.numbers)) & 1)

    def lists(self, facts: int) -> int:
        """The names that may be lists, as bits."""
        return facts >> 2 * len(self.numbers)


def names_of(graph: nx.MultiDiGraph) -> Names:
    """The names that the graph's nodes bind, in order."""
    bound = (data.get("agent") or data.get("bind") for _, data in graph.nodes(data=True))
    return Names({name: number for number, name in enumerate(dict.fromkeys(name for name in bound if name))})


def bindings(
    graph: nx.MultiDiGraph,
    edges: Mapping[str, list[Edge]],
    walk: Walk,
    names: Names,
    arrivals: Mapping[EdgeKey, int],
    bound_in: Mapping[str, tuple[frozenset[str], ...]],
) -> tuple[list[int], Callable[[int, int], int], Callable[[Path, int], int]]:
    """The facts before each state of the walk, and the functions that give those behind a state and at the end of a way."""
    size = len(names.numbers)
    nodes = graph.nodes
    steps: dict[str, tuple[int, int]] = {}
    for node, data in nodes(data=True):
        name = data.get("agent") or data.get("bind")
        if name:
            bit = 1 << names.numbers[name]
            steps[node] = (~(bit | bit << 2 * size), bit << size)
    listed = {
        nodes[fork]["join"]: names.mask(frozenset().union(*branches))
        for fork, branches in bound_in.items()
        if nodes[fork]["copies"] is not None
    }

    def transfer(state: int, facts: int) -> int:
        node = walk.states[state][0]
        if not facts:  # no way leads here
            return 0
        if node in steps:
            keep, add = steps[node]
            return facts & keep | add
        if node in listed:
            single = listed[node] << size
            return facts & ~single | (facts & single) << size
        return facts

    along = _along(graph, edges, names, arrivals, bound_in)
    return forward(walk, (1 << size) - 1, transfer, along), transfer, along


def _along(
    graph: nx.MultiDiGraph,
    edges: Mapping[str, list[Edge]],
    names: Names,
    arrivals: Mapping[EdgeKey, int],
    bound_in: Mapping[str, tuple[frozenset[str], ...]],
) -> Callable[[Path, int], int]:
    """Facts along edges: a branch brings to the join what no other branch binds; a condition that held says what is bound,
    and cannot hold on a way that binds it nowhere."""
    size = len(names.numbers)
    total = {fork: names.mask(frozenset().union(*branches)) for fork, branches in bound_in.items()}
    keeps: dict[EdgeKey, int] = {}
    needs: dict[EdgeKey, list[int]] = {}
    for node, kind in graph.nodes(data="kind"):
        if kind == "branch":
            for order, bound in _by_conditions(edges[node]):
                keeps[node, order] = ~names.mask(bound)
                bits = [names.mask(frozenset({name})) for name in sorted(bound)]
                needs[node, order] = [bit << size | bit << 2 * size for bit in bits]
    for (source, order), branch in arrivals.items():
        for edge in edges[source]:
            if edge.order == order:
                fork = graph.nodes[edge.target]["fork"]
                others = total[fork] & ~names.mask(bound_in[fork][branch])
                keep = ~(others | others << size | others << 2 * size)
                keeps[source, order] = keeps.get((source, order), -1) & keep

    def along(path: Path, facts: int) -> int:
        for key in path:
            if key in keeps:
                if key in needs and not all(facts & need for need in needs[key]):
                    return 0
                facts &= keeps[key]
        return facts

    return along


def _by_conditions(edges: list[Edge]) -> Iterator[tuple[int, frozenset[str]]]:
    """What is bound on each edge of a branch, by its order."""
    known: frozenset[str] = frozenset()
    for edge in edges:
        here = known if edge.condition is None else known | bound_when(edge.condition, True)
        if here:
            yield edge.order, here
        if edge.condition is not None:
            known |= bound_when(edge.condition, False)

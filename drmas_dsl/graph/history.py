"""The longest history that each agent can see: longest paths over the fine walk, loops counted by their iterations.

In reverse postorder only the ways back to the head of a loop run against the order. So the longest iteration of each loop is found
first, innermost loops first, and then taken as often as the loop can repeat it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from drmas_dsl.graph.lowering import Lowered
from drmas_dsl.graph.settings import System
from drmas_dsl.graph.walks import Walk


class Length(NamedTuple):
    """A history: tokens of responses, and how many turns they are."""

    tokens: int = 0
    turns: int = 0

    def plus(self, other: Length, times: int = 1) -> Length:
        """This history and another one, several times."""
        return Length(self.tokens + times * other.tokens, self.turns + times * other.turns)

    def minus(self, other: Length) -> Length:
        """What this history has more than its beginning."""
        return Length(self.tokens - other.tokens, self.turns - other.turns)


def longest_histories(lowered: Lowered, walk: Walk) -> dict[str, Length]:
    """For each agent that is called, the longest history that a call of it can see; `walk` is the fine one."""
    longest = _Longest(lowered, walk)
    found: dict[str, Length] = {}
    for state, length in longest.before(longest.order, {0: Length()}).items():
        agent = longest.nodes[walk.states[state][0]].get("agent")
        if agent is not None:
            found[agent] = max(found.get(agent, Length()), length)
    return found


class _Longest:
    def __init__(self, lowered: Lowered, walk: Walk) -> None:
        self.nodes = lowered.graph.nodes
        self.system: System = lowered.graph.graph["system"]
        self.arrivals = lowered.arrivals
        self.walk = walk
        self.order = walk.order()
        self.position = {state: place for place, state in enumerate(self.order)}
        self.numbers = {state: number for number, state in enumerate(walk.states)}
        self.iteration: dict[int, Length] = {}
        bodies: dict[int, list[int]] = {}
        for state in self.order:
            for head in self.heads(state):
                bodies.setdefault(head, []).append(state)
        for head in sorted(bodies, key=self.position.__getitem__, reverse=True):
            if self.repeats(head) > 1:
                self.iteration[head] = self.longest_iteration(head, bodies[head])

    def heads(self, state: int) -> Iterator[int]:
        """The states of the loops' heads around a state, outermost first."""
        node, phases = self.walk.states[state]
        for depth, head in enumerate(self.nodes[node]["loops"]):
            yield self.numbers[head, phases[: depth + 1]]

    def repeats(self, head: int) -> int:
        """How many iterations a state of a head stands for."""
        node, phases = self.walk.states[head]
        iteration = phases[-1]
        return int(self.nodes[node]["max"]) if iteration is None else iteration.high - iteration.low + 1

    def longest_iteration(self, head: int, body: list[int]) -> Length:
        before = self.before(body, {target: Length() for target, _ in self.walk.ways[head]})
        ends = [self.behind(state, length) for state, length in before.items() if self.leads_to(state, head)]
        return max(ends, default=Length())

    def leads_to(self, state: int, target: int) -> bool:
        return any(end == target for end, _ in self.walk.ways[state])

    def before(self, states: list[int], starts: Mapping[int, Length]) -> dict[int, Length]:
        """The longest history before each of the states, on ways from `starts` through these states only."""
        inside = set(states)
        found = dict(starts)
        branches: dict[int, dict[int, Length]] = {}
        for state in states:
            if state in branches:
                found[state] = self.joined(state, found, branches[state])
            if state not in found:
                continue
            length = self.behind(state, found[state])
            for target, path in self.walk.ways[state]:
                if target not in inside or self.position[target] <= self.position[state]:
                    continue
                if path[-1] in self.arrivals:
                    ends = branches.setdefault(target, {})
                    branch = self.arrivals[path[-1]]
                    ends[branch] = max(ends.get(branch, Length()), length)
                else:
                    found[target] = max(found.get(target, Length()), length)
        return found

    def joined(self, join: int, found: Mapping[int, Length], ends: Mapping[int, Length]) -> Length:
        """The history behind the branches of a fork: that before it, and what each branch adds, copies and all."""
        node, phases = self.walk.states[join]
        fork = self.nodes[node]["fork"]
        start = found[self.numbers[fork, phases]]
        length = start
        for end in ends.values():
            length = length.plus(end.minus(start), self.nodes[fork]["copies"] or 1)
        return length

    def behind(self, state: int, length: Length) -> Length:
        """The history behind a state: a call adds a turn, a loop's head the iterations before the last one."""
        data = self.nodes[self.walk.states[state][0]]
        if data["kind"] == "call":
            return length.plus(Length(self.system.agents[data["agent"]].sampling.max_tokens, 1))
        if state in self.iteration:
            return length.plus(self.iteration[state], self.repeats(state) - 1)
        return length

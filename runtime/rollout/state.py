"""The state of one walk, or of one branch of it: what is bound, what has happened, where it is.

A branch starts from its parent's state and binds into layers of its own, so that what it did can be told apart and merged
where the branches meet.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from runtime.records import ToolCall, Turn
from runtime.rollout.program import Node, Program
from runtime.rollout.prompts import Names

# An agent's latest turn, or one for each copy after `parallel N`; none where there is none.
Latest: TypeAlias = "Turn | list[Latest] | None"


@dataclass(slots=True)
class State:
    """Also the `Scope` of expressions. `turn` is the address of the next turn: its number in the walk,
    or the fork's address, the branch and the number in it; `forks` are the nodes of the forks that the branch is in."""

    program: Program
    row: Mapping[str, Any]
    node: Node
    latest: ChainMap[str, Latest] = field(default_factory=ChainMap)
    variables: ChainMap[str, Any] = field(default_factory=ChainMap)
    events: list[Turn | ToolCall] = field(default_factory=list)
    inherited: int = 0
    iterations: Counter[str] = field(default_factory=Counter)
    visits: Counter[str] = field(default_factory=Counter)
    turn: tuple[int, ...] = (0,)
    forks: tuple[str, ...] = ()
    returned: Any = None

    def branch(self, fork: tuple[int, ...], number: int) -> State:
        """The state in which a branch of the fork at this address begins."""
        return replace(
            self,
            latest=self.latest.new_child(),
            variables=self.variables.new_child(),
            events=list(self.events),
            inherited=len(self.events),
            iterations=Counter(self.iterations),
            visits=Counter(),
            turn=(*fork, number, 0),
            forks=(*self.forks, self.node.name),
        )

    def join(self, branches: list[State], copies: bool) -> None:
        """Take over what the branches did, in their order. Copies of one block leave lists."""
        for branch in branches:
            self.events += branch.events[branch.inherited :]
        if copies:
            for agent in self.node.agents:
                self.latest[agent] = [branch.latest.maps[0].get(agent) for branch in branches]
            for name in self.node.variables:
                self.variables[name] = [branch.variables.maps[0].get(name) for branch in branches]
        else:
            for branch in branches:
                self.latest.update(branch.latest.maps[0])
                self.variables.update(branch.variables.maps[0])

    def next_turn(self) -> tuple[int, ...]:
        """The address of the turn that begins, or of the fork."""
        address = self.turn
        self.turn = (*address[:-1], address[-1] + 1)
        return address

    # What expressions read.

    def output(self, agent: str, name: str) -> Any:
        """An output of the agent's latest turn, or one for each copy."""
        return _read(self.latest.get(agent), lambda turn: turn.outputs.get(name))

    def text(self, agent: str) -> Any:
        """The text of the agent's latest turn, or one for each copy."""
        return _read(self.latest.get(agent), lambda turn: turn.text)

    def variable(self, name: str) -> Any:
        """A variable of the flow."""
        return self.variables.get(name)

    def task(self, name: str) -> Any:
        """A column of the question."""
        return self.row.get(name)

    def loop(self, name: str) -> Any:
        """`index` (from 1), `last` or `max` of the innermost loop around the node."""
        head = self.node.loops[-1]
        index, most = self.iterations[head], self.program.nodes[head].data["max"]
        return {"index": index, "last": index == most, "max": most}[name]

    def result(self) -> Any:
        """What the flow returned."""
        return self.returned

    def calls(self, agent: str) -> int:
        """How often the agent was called."""
        return sum(isinstance(event, Turn) and event.agent == agent for event in self.events)

    def names(self, role: str) -> dict[str, Any]:
        """What a prompt can read besides `history`."""
        names: dict[str, Any] = {"task": Names(self.row), "role": role}
        for agent in self.program.system.agents.values():
            outputs = {output.name: self.output(agent.name, output.name) for output in agent.outputs}
            names[agent.name] = Names({**outputs, "text": self.text(agent.name)})
        for name in self.program.variables:
            names[name] = self.variables.get(name)
        if self.node.loops:
            names["loop"] = Names({name: self.loop(name) for name in ("index", "last", "max")})
        return names


def _read(latest: Latest, read: Callable[[Turn], Any]) -> Any:
    """What `read` finds in an agent's latest turn: none where it has not spoken, a list after `parallel N`."""
    if isinstance(latest, list):
        return [_read(each, read) for each in latest]
    return None if latest is None else read(latest)

"""The state of the LALR(1) parser: its stack, and what can be done with it.

The stack is three parallel lists. Looking ahead runs on a copy of the states alone and builds nothing.
"""

from __future__ import annotations

from typing import Any

from drmas_dsl.syntax.builder import Builder
from drmas_dsl.syntax.lexer import END
from drmas_dsl.syntax.source import Span
from drmas_dsl.syntax.table import Table


class Automaton:
    """`states` has one entry more than `values` (tokens, nodes, lists) and `starts` (where these begin). `build[r]` makes the
    node of rule r, None where its only child stands for it. `last` is the end of the last token that was shifted."""

    def __init__(self, table: Table, start: str, builder: Builder) -> None:
        self.table = table
        self.start = start
        self.end = table.end[start]
        self.file = builder.source.file
        self.build = [None if single else builder.method(name) for _, _, name, single in table.rules]
        self.states: list[int] = [table.start[start]]
        self.values: list[Any] = []
        self.starts: list[int] = []
        self.last = 0

    def reduce(self, action: int) -> None:
        """Replace the children of a rule, on top of the stack, by its node."""
        name, length, _, _ = self.table.rules[-1 - action]
        method = self.build[-1 - action]
        states, values, starts = self.states, self.values, self.starts
        if length:
            first = starts[-length]
            children = values[-length:]
            del states[-length:], values[-length:], starts[-length:]
        else:
            first, children = self.last, []
        values.append(children[0] if method is None else method(children, Span(self.file, first, self.last)))
        states.append(self.table.states[states[-1]][name])
        starts.append(first)

    def settle(self, kind: str) -> None:
        """Make the reductions that precede a terminal which is accepted here, but for that of the whole file."""
        while (action := self.table.states[self.states[-1]].get(kind, 0)) < 0:
            if kind == END and (not self.values or isinstance(self.values[-1], list)):
                return
            self.reduce(action)

    def cut(self, size: int) -> None:
        """Drop all but the `size` lowest values."""
        del self.states[size + 1 :], self.values[size:], self.starts[size:]

    def fits(self, kinds: list[str]) -> int:
        """How many of the terminals could be read one after the other."""
        states = list(self.states)
        rows, rules = self.table.states, self.table.rules
        for count, kind in enumerate(kinds):
            while True:
                action = rows[states[-1]].get(kind)
                if action is None:
                    return count
                if action >= 0:
                    states.append(action)
                    break
                name, length, _, _ = rules[-1 - action]
                if length:
                    del states[-length:]
                states.append(rows[states[-1]][name])
                if kind == END and states[-1] == self.end:
                    return len(kinds)
        return len(kinds)

    def accepted(self) -> set[str]:
        """The terminals that may come next."""
        return {kind for kind in self.table.states[self.states[-1]] if kind.isupper() and self.fits([kind])}

"""Reads of what no path has bound (an error) or what some path leaves unbound (a warning), in the flow and in prompts.

An error stands on the plain walk, which allows more than any trajectory can do; a warning on the fine one. A read that
is compared with `none`, or stands behind such a question, is meant to be unbound at times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drmas_dsl.diagnostics.diagnostic import Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.binding import bindings
from drmas_dsl.graph.conditions import bound_when, name_read, risky_reads
from drmas_dsl.graph.expressions import parts
from drmas_dsl.graph.lowering import Lowered
from drmas_dsl.graph.paths import describe, unbound_path
from drmas_dsl.graph.patterns import inside
from drmas_dsl.graph.settings import Expression
from drmas_dsl.graph.skeleton import label_calls
from drmas_dsl.graph.walks import Path, Walk
from drmas_dsl.graph.wording import text_of
from drmas_dsl.semantics.checked import Checked, PromptRead
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

_SHOWN_PATHS = 20  # a path costs a search of the graph; later findings go without


@dataclass(frozen=True, slots=True)
class _Read:
    """A read at a node: of which name, its text and place, and in which expression of the flow (None in a prompt), where
    `known` is certainly bound."""

    node: str
    name: str
    text: str
    span: Span
    expression: Expression | None = None
    known: frozenset[str] = frozenset()


def check_reads(checked: Checked, lowered: Lowered, walk: Walk, report: Report) -> None:
    """Report the reads of a flow, of its agents' prompts and of the rewards; `walk` is the fine one."""
    _Reads(checked, lowered, walk, report).run()


class _Reads:
    def __init__(self, checked: Checked, lowered: Lowered, walk: Walk, report: Report) -> None:
        self.checked = checked
        self.lowered = lowered
        self.report = report
        self.walk = walk
        self.states = walk.by_node()
        self.ways = walk.backwards()
        found = bindings(lowered.graph, lowered.edges, walk, lowered.names, lowered.arrivals, lowered.bound_in)
        self.facts, self.transfer, self.along = found
        self.first: dict[str, str] = {}
        for node in lowered.facts:
            data = lowered.graph.nodes[node]
            self.first.setdefault(data.get("agent") or data.get("bind") or "", node)
        self.paths = 0
        self.done: set[Span] = set()

    def run(self) -> None:
        for node in self.lowered.facts:
            for read in self.reads_of(node):
                before = len(self.report.diagnostics)
                if read.span not in self.done:
                    self.check(read)
                label_calls(self.report, before, self.lowered.calls[node])
        calls: dict[str, list[str]] = {}
        for node in self.lowered.facts:
            calls.setdefault(self.lowered.graph.nodes[node].get("agent"), []).append(node)
        for agent, reads in self.checked.prompt_reads.items():
            for asked in reads:
                if agent in calls:
                    self.check_prompt(asked, calls[agent])
        self.check_rewards()

    # In the flow

    def reads_of(self, node: str) -> Iterator[_Read]:
        """The reads of a node's expressions and of the conditions of its edges."""
        data = self.lowered.graph.nodes[node]
        for key, expr in self.lowered.values.get(node, {}).items():
            expression = data["value"] if key == "value" else data["args"].get(key)
            if expression is not None:
                yield from self.located(node, expression, expr, frozenset())
        known: frozenset[str] = frozenset()
        for edge in self.lowered.edges[node]:
            written = self.lowered.conditions.get((node, edge.order))
            if written is not None and edge.condition is not None:
                yield from self.located(node, edge.condition, written, known)
                known |= bound_when(edge.condition, False)

    def located(self, node: str, expression: Expression, expr: ast.Expr, known: frozenset[str]) -> Iterator[_Read]:
        for part in parts(expression):
            name = name_read(part)
            if name is not None:
                yield _Read(node, name, _short(text_of(part)), _place(expr, name), expression, known)

    def check(self, read: _Read) -> None:
        if self.never(read.node, read.name):
            self.say_never(read.text, read.name, read.span, ())
        else:
            self.say_maybe(read, (), Help(f"ask first: `{read.text} != none`"))

    def never(self, node: str, name: str) -> bool:
        facts, names = self.lowered.facts[node], self.lowered.names
        return not names.one(facts, name) and not names.list(facts, name)

    def say_never(self, text: str, name: str, span: Span, labels: tuple[Label, ...]) -> None:
        self.done.add(span)
        agent = name in self.checked.scope.agents
        verb = "calls" if agent else "binds"
        if name in self.first:
            label = Label(self.lowered.places[self.first[name]], f"the flow {verb} `{_short(name)}` here")
            note, help = f"no path {verb} `{_short(name)}` before this", None
            labels = (*labels, label)
        else:
            note = f"the flow never {verb} `{_short(name)}`"
            help = Help(f"call `{name}` before this is read") if agent else None
        self.report.add("E0507", f"`{text}` can have no value here", span, labels=labels, notes=(note,), help=help)

    def say_maybe(self, read: _Read, labels: tuple[Label, ...], help: Help) -> bool:
        """Warn where some way leaves the name unbound; whether one does."""
        names = self.lowered.names
        unbound = (s for s in self.states.get(read.node, ()) if names.unbound(self.facts[s], read.name))
        state = next((s for s in unbound if self.matters(read, s)), None)
        if state is None:
            return False
        self.done.add(read.span)
        self.paths += 1
        notes = []
        if self.paths <= _SHOWN_PATHS:
            path = unbound_path(self.ways, state, lambda source, way: self.stays_unbound(read.name, source, way))
            words = describe(self.lowered.graph, path)
            notes.append(f"on this path it is: {words}" if words else "the flow begins here")
        message = f"`{read.text}` may be unbound here"
        self.report.add("W0501", message, read.span, labels=labels, notes=notes, help=help)
        return True

    def matters(self, read: _Read, state: int) -> bool:
        """Whether the value is used as it is: not compared with `none`, and not cut off in this iteration."""
        if read.expression is None:
            return True
        phases = self.walk.states[state][1]
        risky = risky_reads(read.expression, read.known, phases[-1] if phases else None)
        return any(name_read(part) == read.name for part in risky)

    def stays_unbound(self, name: str, source: int, way: Path) -> bool:
        return self.lowered.names.unbound(self.along(way, self.transfer(source, self.facts[source])), name)

    # In prompts and rewards

    def check_prompt(self, read: PromptRead, calls: list[str]) -> None:
        """A read in a prompt: an error where no call of the agent can satisfy it, a warning where one of them may not."""
        name = name_read(read.expression)
        if name is None or read.span in self.done:
            return
        text, places = text_of(read.expression), self.lowered.places
        agent = self.lowered.graph.nodes[calls[0]]["agent"]
        if all(self.never(node, name) for node in calls):
            self.say_never(text, name, read.span, (Label(places[calls[0]], f"`{agent}` is called here"),))
            return
        for node in calls:
            help = Help(f"ask first: `{{% if {text} %}} … {{% endif %}}`")
            label = Label(places[node], f"in this call of `{agent}`")
            found = _Read(node, name, text, read.span)
            if not read.guarded and self.say_maybe(found, (label,), help):
                return

    def check_rewards(self) -> None:
        """Reads of agents that are never called, in the rewards."""
        task = self.checked.system.task
        rewards = {"task.reward": task.reward, "task.success": task.success}
        rewards |= {f"task.reward.{agent}": reward for agent, reward in task.agent_rewards.items()}
        for path, reward in rewards.items():
            span = self.checked.places.get(path)
            for part in parts(reward) if reward is not None and span is not None else ():
                name = name_read(part)
                if name is not None and name not in self.lowered.names.numbers and span is not None:
                    self.say_never(text_of(part), name, span, ())


def _place(expr: ast.Expr, name: str) -> Span:
    """Where the expression reads the name."""
    for part in inside(expr):
        match part:
            case ast.Attribute(value=ast.Name(name=found)) if found == name:
                return part.span
            case ast.Name(name=found) if found == name:
                return part.span
    return expr.span


def _short(text: str) -> str:
    """A variable of a pattern under the name that the pattern gave it (`refine.1.x` is `x`)."""
    return text.rpartition(".")[2] if text.count(".") == 2 else text

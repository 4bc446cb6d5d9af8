"""The skeleton of the execution graph: one node per call, tool call, assignment, branch, loop, fork, join and return,
connected as `graph.execution` says, with the expressions still as they were written.

What is wrong with the shape of the flow is found here: statements that can never run, jumps that leave nothing, parallel
branches that disagree. Expressions are typed by `flow_types`; what needs paths is found in `analyses`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import networkx as nx

from drmas_dsl.diagnostics.diagnostic import Diagnostic, Edit, Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.execution import MORE
from drmas_dsl.graph.patterns import check_fresh, expand, inside, variables_of
from drmas_dsl.graph.walks import EdgeKey
from drmas_dsl.semantics.arguments import Bound, bind
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.semantics.expressions import typed_constant
from drmas_dsl.semantics.suggest import nearest, unknown
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

MOST_EXPANSIONS = 10_000
DEEPEST_PATTERN = 20

END = "end"  # the node behind the last statement, where a path without a `return` ends


@dataclass(frozen=True, slots=True)
class Pending:
    """An expression that is still to be typed. `key` says where it goes: "condition" of the edge `order` of `node`,
    or the node's own "value" or "args" (then `bound` holds the arguments). `calls`: the pattern calls around it; `loop`:
    whether `loop.index` and the like mean something there."""

    node: str
    key: str
    expr: ast.Expr
    order: int
    bound: Bound
    calls: tuple[Span, ...]
    loop: bool


@dataclass(slots=True)
class _Exit:
    """An edge that has a source and no target yet."""

    source: str
    order: int


@dataclass(slots=True)
class _LoopFrame:
    head: str
    breaks: list[_Exit]


class Skeleton:
    """Builds the graph's nodes and edges, one statement after the other. Every method for a statement takes the edges that
    lead to it and gives those that lead on; no edges in means that it can never run."""

    def __init__(self, checked: Checked, report: Report) -> None:
        self.checked = checked
        self.report = report
        self.graph = nx.MultiDiGraph()
        self.places: dict[str, Span] = {}
        self.pending: list[Pending] = []
        self.calls_of: dict[str, tuple[Span, ...]] = {}
        self.counts: dict[str, ast.Expr] = {}
        self.arrivals: dict[EdgeKey, int] = {}
        self.bound_in: dict[str, tuple[frozenset[str], ...]] = {}
        self.called_patterns: set[str] = set()
        self._frames: list[_LoopFrame | None] = []  # None: the border of a parallel branch
        self._heads: list[str] = []
        self._copies: Span | None = None
        self._patterns: list[str] = []
        self._calls: tuple[Span, ...] = ()
        self._expansions = 0
        self._variables: frozenset[str] = frozenset()

    def build(self, flow: ast.FlowDecl) -> None:
        """Lower the flow; the edges that leave it without a `return` lead to `END`."""
        self._variables = frozenset(variables_of(flow.body))
        self.node("start", flow.keyword)
        ends = self.block(flow.body, [_Exit("n0", 0)])
        if ends:
            self.graph.add_node(END, kind="end", loops=[])
            self.connect(ends, END)

    # Nodes and edges

    def node(self, kind: str, span: Span, entry: list[_Exit] | None = None, **data: object) -> str:
        """A new node, with the edges of `entry` leading to it."""
        name = f"n{len(self.graph)}"
        self.graph.add_node(name, kind=kind, loops=list(self._heads), **data)
        self.places[name] = span
        self.calls_of[name] = self._calls
        self.connect(entry or [], name)
        return name

    def connect(self, exits: list[_Exit], target: str) -> None:
        """Lead the edges to `target`."""
        for end in exits:
            more = self.graph.nodes[end.source]["kind"] == "loop" and end.order == 0
            self.graph.add_edge(end.source, target, order=end.order, condition=MORE if more else None)

    def step(self, kind: str, span: Span, entry: list[_Exit], **data: object) -> list[_Exit]:
        """A node with one edge on."""
        return [_Exit(self.node(kind, span, entry, **data), 0)]

    def later(self, node: str, key: str, expr: ast.Expr, order: int = 0, bound: Bound | None = None) -> None:
        """Note an expression to be typed when the graph stands."""
        self.pending.append(Pending(node, key, expr, order, bound or {}, self._calls, any(self._frames)))

    # Statements

    def block(self, body: tuple[ast.Stmt, ...], entry: list[_Exit]) -> list[_Exit]:
        """Statements in turn; the first one that can never run is reported."""
        alive = bool(entry)
        for index, statement in enumerate(body):
            if alive and not entry:
                self._unreachable(statement, body[index - 1], body[-1])
                alive = False
            entry = self.statement(statement, entry)
        return entry

    def _unreachable(self, statement: ast.Stmt, before: ast.Stmt, last: ast.Stmt) -> None:
        words = {ast.Return: "`return`", ast.Break: "`break`", ast.Continue: "`continue`"}
        why = words.get(type(before))
        message = f"this can never run: it stands after {why}" if why else "this can never run"
        label = Label(before.span, "the flow leaves here" if why else "every way through this leaves")
        rest = statement.span.to(last.span)
        help = Help("remove it", (Edit(rest, ""),))
        self._say("E0501", message, statement.span, labels=(label,), help=help)

    def statement(self, statement: ast.Stmt, entry: list[_Exit]) -> list[_Exit]:
        """One statement."""
        match statement:
            case ast.Do():
                return self.do(statement, entry)
            case ast.Chain(steps=steps):
                for step in steps:
                    entry = self.do(step, entry)
                return entry
            case ast.Assign():
                return self.assign(statement, entry)
            case ast.If():
                return self.branch(statement, entry)
            case ast.Loop():
                return self.loop(statement, entry)
            case ast.Parallel(count=None):
                return self.parallel(statement, entry)
            case ast.Parallel():
                return self.copies(statement, entry)
            case ast.Sequence(body=body):
                return self.block(body, entry)
            case ast.Break() | ast.Continue():
                return self.jump(statement, entry)
            case ast.Return(value=value):
                if None in self._frames:
                    self._say("E0504", "`return` cannot leave a `parallel`", statement.span, help=_AFTER_JOIN)
                    return entry
                self.later(self.node("return", statement.span, entry), "value", value)
                return []

    def do(self, step: ast.Do, entry: list[_Exit]) -> list[_Exit]:
        """A call of an agent or of a pattern."""
        target = step.target
        name = target.name if isinstance(target, ast.Name) else target.function.name
        if isinstance(target, ast.Call) and name in self.checked.patterns:
            return self.expanded(self.checked.patterns[name], target, entry)
        if isinstance(target, ast.Name) and name in self.checked.scope.agents:
            return self.step("call", step.span, entry, agent=name)
        self._no_call(target, name)
        meant = nearest(name, self.checked.scope.agents)
        known = (
            name in self.checked.scope.others
            or name in self.checked.scope.params
            or name in self.checked.scope.functions
        )
        if isinstance(target, ast.Name) and meant is not None and not known:
            return self.step("call", step.span, entry, agent=meant)  # so that one mistake stays one finding
        return entry

    def _no_call(self, target: ast.Name | ast.Call, name: str) -> None:
        """Report a statement that calls neither an agent nor a pattern."""
        scope = self.checked.scope
        place = target.span if isinstance(target, ast.Name) else target.function.span
        if name in self.checked.patterns:
            parameters = ", ".join(p.name for p in self.checked.patterns[name].parameters)
            help = Help(f"write `{name}({parameters})`")
            self._say("E0306", f"the pattern `{name}` needs its arguments", place, help=help)
        elif name in scope.agents:
            help = Help(f"write `{name}` alone", (Edit(target.span, name),))
            self._say("E0306", f"the agent `{name}` takes no arguments", target.span, help=help)
        elif name in self.checked.tool_calls:
            help = Help(f"write `x = {name}(…)`", (Edit(Span(place.file, place.start, place.start), "x = "),))
            self._say("E0211", f"what the tool `{name}` gives has to be bound to a variable", place, help=help)
        elif name in scope.others or name in scope.params:
            kind = scope.others.get(name, "a param")
            self._say("E0211", f"`{name}` is {kind}, it cannot be called in the flow", place)
        elif name in scope.functions:
            help = Help(f"bind it: `x = {name}(…)`")
            self._say("E0211", f"`{name}` is a function; its value has to be bound to a variable", place, help=help)
        else:
            known = [*scope.agents, *self.checked.patterns]
            unknown(self.report, "E0201", f"there is no agent or pattern `{name}`", name, place, known)

    def expanded(self, pattern: ast.FlowDecl, call: ast.Call, entry: list[_Exit]) -> list[_Exit]:
        """A pattern's body in place of its call."""
        name = call.function.name
        self.called_patterns.add(name)
        if name in self._patterns:
            chain = " -> ".join((*self._patterns[self._patterns.index(name) :], name))
            message = f"the pattern `{name}` calls itself"
            self._say("E0508", message, call.span, notes=(f"{chain}",), help=Help("write a `loop`"))
            return entry
        if self._expansions >= MOST_EXPANSIONS or len(self._patterns) >= DEEPEST_PATTERN:
            self._too_much(call)
            return entry
        self._expansions += 1
        before = len(self.report.diagnostics)
        expansion = expand(pattern, call, self._expansions, self.report)
        if expansion is None:
            return entry
        held, body = expansion
        self._label_since(before)
        entry = self.block(held, entry)
        outer, outer_frames = self._calls, self._frames
        self._calls, self._frames = (*outer, call.span), [None] if None in outer_frames else []
        self._patterns.append(name)
        entry = self.block(body, entry)
        self._patterns.pop()
        self._calls, self._frames = outer, outer_frames
        return entry

    def _too_much(self, call: ast.Call) -> None:
        """Report, once, that patterns call patterns without end in sight."""
        if not any(found.code == "E0511" for found in self.report.diagnostics):
            outermost = self._calls[0] if self._calls else call.span
            note = (
                f"at most {MOST_EXPANSIONS} calls of patterns are expanded, at most {DEEPEST_PATTERN} inside each other"
            )
            help = Help("let an agent's turns repeat in a `loop`, which is one part of the graph")
            self.report.add("E0511", "the patterns expand to too much", outermost, notes=(note,), help=help)

    def assign(self, statement: ast.Assign, entry: list[_Exit]) -> list[_Exit]:
        """A tool call, or a variable bound to an expression."""
        name, value = statement.name.name, statement.value
        if "." not in name:  # a variable of an expanded pattern was checked with the pattern
            check_fresh(statement.name, "a variable", self.checked.scope, self.checked.places, self.report)
        function = (
            value.function.name if isinstance(value, ast.Call) else value.name if isinstance(value, ast.Name) else ""
        )
        signature = self.checked.tool_calls.get(function)
        if signature is None:
            node = self.node("assign", statement.span, entry, bind=name)
            self.later(node, "value", value)
            return [_Exit(node, 0)]
        node = self.node("tool", statement.span, entry, tool=function, args={}, bind=name)
        call = value if isinstance(value, ast.Call) else ast.Call(ast.Ident(function, value.span), (), value.span)
        bound = bind(call, signature, self.report)
        if bound is not None:
            self.later(node, "args", call, bound=bound)
        return [_Exit(node, 0)]

    def branch(self, statement: ast.If, entry: list[_Exit]) -> list[_Exit]:
        """`if … elif … else`: the edges carry the conditions, the last one none."""
        head = self.node("branch", statement.span, entry)
        exits: list[_Exit] = []
        for order, (condition, body) in enumerate(statement.branches):
            self.later(head, "condition", condition, order)
            exits += self.block(body, [_Exit(head, order)] if entry else [])
        last = [_Exit(head, len(statement.branches))] if entry else []
        return exits + (last if statement.orelse is None else self.block(statement.orelse, last))

    def loop(self, statement: ast.Loop, entry: list[_Exit]) -> list[_Exit]:
        """A loop's head, its body, and the way back."""
        count = self.count(statement.count, "a loop")
        head = self.node("loop", _header(statement), entry, max=count)
        frame = _LoopFrame(head, [])
        self._heads.append(head)
        self._frames.append(frame)
        ends = self.block(statement.body, [_Exit(head, 0)] if entry else [])
        self._frames.pop()
        self._heads.pop()
        if len(self.graph) == int(head[1:]) + 1:  # nothing happens in it
            self.graph.remove_node(head)
            return entry
        self.counts[head] = statement.count
        self.connect(ends, head)
        comes_back = any(head in self.graph.nodes[source]["loops"] for source in self.graph.predecessors(head))
        return ([_Exit(head, 1)] if comes_back else []) + frame.breaks

    def count(self, expr: ast.Expr, what: str) -> int:
        """How often a loop or a parallel block runs: a constant, at least 1 (2 where it is wrong: no other finding then)."""
        scope = self.checked.scope
        for part in inside(expr):
            if isinstance(part, ast.Name) and (
                part.name in scope.agents or part.name in self._variables or "." in part.name
            ):
                self._say("E0307", f"how often {what} runs has to be known at compile time", expr.span, help=_COUNT)
                return 2
        found = typed_constant(expr, scope.params, self.report, scope.others)
        if found is None:
            return 2
        if found.type.kind != "int":
            self._say("E0301", f"{what} runs a whole number of times, this is {found.type}", expr.span)
        elif found.value < 1:
            self._say("E0302", f"{what} runs at least once, not {found.value} times", expr.span)
        else:
            return int(found.value)
        return 2

    def jump(self, statement: ast.Break | ast.Continue, entry: list[_Exit]) -> list[_Exit]:
        """`break` and `continue`: an edge, no node."""
        word = "break" if isinstance(statement, ast.Break) else "continue"
        frame = self._frames[-1] if self._frames else None
        if frame is None:
            if any(self._frames):
                self._say("E0504", f"`{word}` cannot leave a `parallel`", statement.span, help=_AFTER_JOIN)
            else:
                self._say("E0503", f"`{word}` stands outside of a loop", statement.span)
            return entry
        if word == "break":
            frame.breaks += entry
        else:
            self.connect(entry, frame.head)
        return []

    def parallel(self, statement: ast.Parallel, entry: list[_Exit]) -> list[_Exit]:
        """`parallel { … }`: every statement a branch."""
        if not statement.body:
            return entry
        fork = self.node("fork", _header(statement), entry, join="", copies=None)
        bodies: list[tuple[ast.Stmt, ...]] = [(branch,) for branch in statement.body]
        branches = self.branches(fork, bodies, entry)
        self._conflicts(branches)
        return self.join(fork, branches, statement.span, entry)

    def copies(self, statement: ast.Parallel, entry: list[_Exit]) -> list[_Exit]:
        """`parallel N { … }`: the block N times."""
        assert statement.count is not None
        count = self.count(statement.count, "a parallel block")
        if not statement.body:
            return entry
        outer = self._copies
        if outer is not None:
            label = Label(outer, "the outer one")
            self._say("E0506", "`parallel N` stands inside `parallel N`", _header(statement), labels=(label,))
        fork = self.node("fork", _header(statement), entry, join="", copies=count)
        self.counts[fork] = statement.count
        self._copies = _header(statement)
        branches = self.branches(fork, [statement.body], entry)
        self._copies = outer
        return self.join(fork, branches, statement.span, entry)

    def branches(
        self, fork: str, bodies: list[tuple[ast.Stmt, ...]], entry: list[_Exit]
    ) -> list[tuple[range, list[_Exit]]]:
        """Each branch's nodes (by number) and the edges that lead on from it."""
        found = []
        self._frames.append(None)
        for order, body in enumerate(bodies):
            first = len(self.graph)
            ends = self.block(body, [_Exit(fork, order)] if entry else [])
            found.append((range(first, len(self.graph)), ends))
        self._frames.pop()
        return found

    def join(self, fork: str, branches: list[tuple[range, list[_Exit]]], span: Span, entry: list[_Exit]) -> list[_Exit]:
        """Where the branches of a fork meet."""
        join = self.node("join", span, fork=fork)
        self.graph.nodes[fork]["join"] = join
        for number, (_, ends) in enumerate(branches):
            self.connect(ends, join)
            self.arrivals.update({(end.source, end.order): number for end in ends})
        self.bound_in[fork] = tuple(frozenset(self._bound(nodes)) for nodes, _ in branches)
        return [_Exit(join, 0)] if entry else []

    def _bound(self, nodes: range) -> dict[str, str]:
        """What the nodes bind, each with the first node that does."""
        found: dict[str, str] = {}
        for number in nodes:
            data = self.graph.nodes[f"n{number}"]
            name = data.get("agent") or data.get("bind")
            if name:
                found.setdefault(name, f"n{number}")
        return found

    def _conflicts(self, branches: list[tuple[range, list[_Exit]]]) -> None:
        seen: dict[str, str] = {}
        for nodes, _ in branches:
            bound = self._bound(nodes)
            for name, node in bound.items():
                if name in seen:
                    what = "is called" if "agent" in self.graph.nodes[node] else "is bound"
                    label = Label(self.places[seen[name]], f"it {what} here too")
                    help = Help("put both into one branch, `{ … }`" if what == "is called" else "use two variables")
                    message = f"`{name}` {what} in two branches of a `parallel`"
                    self._say("E0505", message, self.places[node], labels=(label,), help=help)
            for name, node in bound.items():
                seen.setdefault(name, node)

    # Findings

    def _say(
        self,
        code: str,
        message: str,
        span: Span,
        labels: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        help: Help | None = None,
    ) -> None:
        labels += tuple(Label(call, "in this call of the pattern") for call in self._calls)
        self.report.add(code, message, span, labels=labels, notes=notes, help=help)

    def _label_since(self, before: int) -> None:
        label_calls(self.report, before, self._calls)


def _header(statement: ast.Loop | ast.Parallel) -> Span:
    """The `loop N` or `parallel N` in front of a block."""
    word = Span(statement.span.file, statement.span.start, statement.span.start + len(_WORD[type(statement)]))
    inside = statement.count is not None and statement.span.start <= statement.count.span.start < statement.span.end
    own = inside and statement.count is not None and statement.count.span.file == word.file
    return word.to(statement.count.span) if own and statement.count is not None else word


_WORD = {ast.Loop: "loop", ast.Parallel: "parallel"}
_COUNT = Help("write a number or a param, and leave with `break`")
_AFTER_JOIN = Help("bind what matters in the branch, and decide after the `parallel`")


def label_calls(report: Report, before: int, calls: tuple[Span, ...]) -> None:
    """Add the pattern calls as labels to the findings since number `before`."""
    labels = tuple(Label(call, "in this call of the pattern") for call in calls)
    for index in range(before, len(report.diagnostics)):
        found: Diagnostic = report.diagnostics[index]
        report.diagnostics[index] = replace(found, labels=(*found.labels, *labels))

"""Prompts: every name that a template reads must exist, checked at its exact place in the `.mas` or `.j2` file.

In scope: `task`, `role`, `history`, the agents, the flow's variables and `loop`, besides what the template itself binds.
Whether a read can be satisfied on some path of the flow is the business of the graph's analyses, which take the
`PromptRead`s made here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.settings import Expression
from drmas_dsl.semantics.checked import PromptRead
from drmas_dsl.semantics.expressions import LOOP_FIELDS, Scope, lacking_column
from drmas_dsl.semantics.suggest import nearest, unknown
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

if TYPE_CHECKING:
    from jinja2 import nodes

# What a turn or tool result of the history has besides its outputs.
TURN_FIELDS = ("agent", "tool", "text")
JINJA_LOOP = "index index0 revindex revindex0 first last length depth depth0 previtem nextitem cycle changed".split()


@dataclass(frozen=True, slots=True)
class PromptNames:
    """The names that prompts see: agents with outputs and columns in `scope`, the flow's variables, and whether the
    flow has a loop at all."""

    scope: Scope
    variables: frozenset[str]
    loops: bool

    @property
    def known(self) -> list[str]:
        """All names, for suggestions."""
        return ["task", "role", "history", *self.scope.agents, *sorted(self.variables), "loop"]


def check_prompt(text: ast.Text, names: PromptNames, report: Report) -> tuple[PromptRead, ...]:
    """What the template reads, in its order; mistakes are reported at their places in the file of `text`."""
    from drmas_dsl.semantics.templates import TemplateError, parse_template

    if "{" not in text.value:
        return ()
    reader = _Reader(text, names, report)
    try:
        tree = parse_template(text.value)
    except TemplateError as error:
        help = reader.raw(error.start)
        report.add("E0401", error.message, reader.span(error.start, error.end), help=help)
        return ()
    reader.visit(tree, {})
    return tuple(reader.reads)


@dataclass(slots=True)
class _Reader:
    """Walks one template. `bound` maps the names that the template has bound to what they are: "turn" for an element
    of the history, "loop" for a `for`'s own loop, else "". What stands in the test of an `if`, before an `or` or `| default`, or
    is tested for `none`, is asked for, and so are its other reads inside that `if`."""

    text: ast.Text
    names: PromptNames
    report: Report
    reads: list[PromptRead] = field(default_factory=list)
    asked: frozenset[str] = frozenset()  # agents and variables of which the template asks first if they are there

    def span(self, start: int, end: int) -> Span:
        """The place of text[start:end] in the file."""
        offsets = self.text.offsets
        first = offsets[min(start, len(offsets) - 1)]
        last = offsets[min(end, len(self.text.value)) - 1] + 1 if end > start and self.text.value else first
        return Span(self.text.span.file, first, max(last, first))

    # The walk

    def visit(self, node: nodes.Node, bound: dict[str, str]) -> None:
        visit = getattr(self, f"visit_{type(node).__name__.lower()}", None)
        if visit is not None:
            visit(node, bound)
        else:
            self.children(node, bound)

    def children(self, node: nodes.Node, bound: dict[str, str]) -> None:
        for child in node.iter_child_nodes():
            self.visit(child, bound)

    def body(self, body: Iterable[nodes.Node], bound: dict[str, str]) -> None:
        for child in body:
            self.visit(child, bound)

    def visit_for(self, node: nodes.For, bound: dict[str, str]) -> None:
        self.visit(node.iter, bound)
        kind = "turn" if _is_name(node.iter, "history", bound) else ""
        inner = bound | dict.fromkeys(_targets(node.target), kind)
        if node.test is not None:
            self.visit(node.test, inner)
        self.body(node.body, inner | {"loop": "loop"})
        self.body(node.else_, dict(bound))

    def asking(self, question: nodes.Node, parts: Iterable[nodes.Node], bound: dict[str, str]) -> None:
        """Visit `parts` as answers to a question about all names in `question`."""
        from jinja2 import nodes as jinja

        names = [question, *question.find_all(jinja.Name)]
        before = self.asked
        self.asked = before | {name.name for name in names if isinstance(name, jinja.Name)}
        self.body(parts, bound)
        self.asked = before

    def visit_if(self, node: nodes.If, bound: dict[str, str]) -> None:
        self.asking(node.test, [node.test, *node.body, *node.elif_, *node.else_], bound)

    def visit_condexpr(self, node: nodes.CondExpr, bound: dict[str, str]) -> None:
        self.asking(node.test, node.iter_child_nodes(), bound)

    def visit_or(self, node: nodes.Or, bound: dict[str, str]) -> None:
        self.asking(node.left, [node.left], bound)
        self.visit(node.right, bound)

    def visit_compare(self, node: nodes.Compare, bound: dict[str, str]) -> None:
        from jinja2 import nodes as jinja

        if any(isinstance(other.expr, jinja.Const) and other.expr.value is None for other in node.ops):
            self.asking(node.expr, [node.expr], bound)
        else:
            self.children(node, bound)

    def visit_assign(self, node: nodes.Assign, bound: dict[str, str]) -> None:
        self.visit(node.node, bound)
        bound.update(dict.fromkeys(_targets(node.target), ""))

    def visit_assignblock(self, node: nodes.AssignBlock, bound: dict[str, str]) -> None:
        if node.filter is not None:
            self.visit(node.filter, bound)
        self.body(node.body, dict(bound))
        bound.update(dict.fromkeys(_targets(node.target), ""))

    def visit_with(self, node: nodes.With, bound: dict[str, str]) -> None:
        for value in node.values:
            self.visit(value, bound)
        names = [name for target in node.targets for name in _targets(target)]
        self.body(node.body, bound | dict.fromkeys(names, ""))

    def visit_macro(self, node: nodes.Macro, bound: dict[str, str]) -> None:
        bound[node.name] = ""
        self.macro(node, bound)

    def visit_callblock(self, node: nodes.CallBlock, bound: dict[str, str]) -> None:
        self.visit(node.call, bound)
        self.macro(node, bound)

    def macro(self, node: nodes.Macro | nodes.CallBlock, bound: dict[str, str]) -> None:
        for default in node.defaults:
            self.visit(default, bound)
        own = [name for argument in node.args for name in _targets(argument)]
        self.body(node.body, bound | dict.fromkeys([*own, "caller", "varargs", "kwargs"], ""))

    def missing(self, node: nodes.Node, bound: dict[str, str]) -> None:
        tag = re.match(r"\w+", self.text.value[node.lineno :])
        name = tag.group() if tag else "include"
        help = Help("write the text itself; a role or `file(…)` shares it")
        message = f"prompts have no `{{% {name} %}}`: there are no other templates"
        self.report.add("E0404", message, self.span(node.lineno, node.lineno + len(name)), help=help)

    visit_include = visit_import = visit_fromimport = visit_extends = missing

    # Reads

    def visit_filter(self, node: nodes.Filter, bound: dict[str, str]) -> None:
        from drmas_dsl.semantics.templates import FILTERS

        if node.name not in FILTERS:
            span = self.span(node.lineno, node.lineno + len(node.name))
            unknown(self.report, "E0404", f"there is no filter `{node.name}`", node.name, span, FILTERS)
        if node.name in ("default", "d") and node.node is not None:
            self.asking(node.node, node.iter_child_nodes(), bound)
        else:
            self.children(node, bound)

    def visit_test(self, node: nodes.Test, bound: dict[str, str]) -> None:
        from drmas_dsl.semantics.templates import TESTS

        if node.name not in TESTS:
            start = self.text.value.find(node.name, node.lineno)
            span = self.span(start, start + len(node.name))
            unknown(self.report, "E0404", f"there is no test `{node.name}`", node.name, span, TESTS)
        self.asking(node.node, node.iter_child_nodes(), bound)

    def visit_getattr(self, node: nodes.Getattr, bound: dict[str, str]) -> None:
        start = node.lineno + 1
        start += len(self.text.value[start:]) - len(self.text.value[start:].lstrip())
        self.field(node.node, node.attr, start, bound)

    def visit_getitem(self, node: nodes.Getitem, bound: dict[str, str]) -> None:
        from jinja2 import nodes as jinja

        if isinstance(node.arg, jinja.Const) and isinstance(node.arg.value, str):
            self.field(node.node, node.arg.value, node.arg.lineno + 1, bound)
        else:
            self.children(node, bound)

    def field(self, owner: nodes.Node, name: str, start: int, bound: dict[str, str]) -> None:
        """`owner.name`, whose name begins at `start`."""
        from jinja2 import nodes as jinja

        if not isinstance(owner, jinja.Name):
            self.visit(owner, bound)
            return
        span = self.span(start, start + len(name))
        scope = self.names.scope
        if owner.name in bound:
            self.bound_field(bound[owner.name], owner, name, span)
        elif owner.name in scope.agents:
            self.agent_field(owner.name, name, span)
        elif owner.name == "task":
            lacking_column(name, span, scope.columns, self.report)
        elif owner.name == "loop":
            if name in LOOP_FIELDS:
                self.read({"kind": "loop", "name": name}, span)
            else:
                unknown(self.report, "E0403", f"`loop` has no `{name}`", name, span, LOOP_FIELDS)
        else:
            self.visit(owner, bound)

    def bound_field(self, kind: str, owner: nodes.Name, name: str, span: Span) -> None:
        if kind == "turn":
            outputs = [output for outputs in self.names.scope.agents.values() for output in outputs]
            known = dict.fromkeys([*TURN_FIELDS, *outputs])
            if name not in known:
                unknown(self.report, "E0403", f"a turn of the history has no `{name}`", name, span, known)
        elif kind == "loop":
            note = "inside a template's `for`, `loop` is the `for`'s own and hides the flow's"
            help = Help(f"keep the flow's before the `for`: `{{% set round = loop.{name} %}}`")
            if name not in JINJA_LOOP and name in LOOP_FIELDS:
                message = f"the `loop` of a `for` has no `{name}`"
                self.report.add("E0403", message, span, notes=[note], help=help)
            elif name not in JINJA_LOOP:
                unknown(self.report, "E0403", f"the `loop` of a `for` has no `{name}`", name, span, JINJA_LOOP)
            elif name in LOOP_FIELDS and self.names.loops:
                message = f"`loop.{name}` is that of the template's `for`, not that of the flow"
                self.report.add("W0401", message, span, notes=[note], help=help)

    def agent_field(self, agent: str, name: str, span: Span) -> None:
        outputs = self.names.scope.agents[agent]
        if name in outputs:
            self.read({"kind": "output", "agent": agent, "name": name}, span)
        elif name == "text":
            self.read({"kind": "text", "agent": agent}, span)
        else:
            message = f"agent `{agent}` has no output `{name}`"
            unknown(self.report, "E0403", message, name, span, [*outputs, "text"])

    def visit_name(self, node: nodes.Name, bound: dict[str, str]) -> None:
        from drmas_dsl.semantics.templates import GLOBALS

        name = node.name
        if node.ctx != "load" or name in bound or name in ("task", "role", "history") or name in GLOBALS:
            return
        span = self.span(node.lineno, node.lineno + len(name))
        if name in self.names.variables:
            self.read({"kind": "variable", "name": name}, span)
        elif name in self.names.scope.agents:
            help = Help(f"read its text or an output: `{name}.text`", (Edit(span, f"{name}.text"),))
            self.report.add("E0402", f"`{name}` is an agent, not a text", span, help=help)
        elif name == "loop":
            self.report.add(
                "E0402", "`loop` is no text", span, help=Help("read `loop.index`, `loop.last` or `loop.max`")
            )
        else:
            self.unknown_name(name, node.lineno, span)

    def unknown_name(self, name: str, start: int, span: Span) -> None:
        scope = self.names.scope
        notes = []
        if name in scope.params:
            notes.append(f"`{name}` is a param; prompts do not see params")
        elif name in scope.others:
            notes.append(f"`{name}` is {scope.others[name]}; prompts do not see it")
        message = f"prompts have no `{name}`"
        help = self.raw(start)
        if help is not None and (len(name) < 3 or nearest(name, self.names.known) is None):
            self.report.add("E0402", message, span, notes=notes, help=help)
        else:
            unknown(self.report, "E0402", message, name, span, self.names.known, notes=notes)

    def read(self, expression: Expression, span: Span) -> None:
        owner = expression.get("agent", expression["name"] if expression["kind"] == "variable" else None)
        self.reads.append(PromptRead(expression, span, owner in self.asked))

    def raw(self, start: int) -> Help | None:
        """Where the braces at or before `start` look like LaTeX: the offer to make them plain text."""
        text = self.text.value
        opener = max(text.rfind(braces, 0, start + 2) for braces in ("{{", "{%", "{#"))
        if opener < 1 or not re.match(r"[\w^_}\\&$]", text[opener - 1]):
            return None
        message = "for LaTeX and other literal braces write `{% raw %}…{% endraw %}`"
        line_end = text.find("\n", opener)
        line = text[opener : len(text) if line_end < 0 else line_end]
        if line.startswith("{{") and "}}" in line:
            end = opener + line.index("}}") + 2
            edits = (Edit(self.span(opener, opener), "{% raw %}"), Edit(self.span(end, end), "{% endraw %}"))
            return Help(message, edits)
        return Help(message)


def _is_name(node: Any, name: str, bound: Mapping[str, str]) -> bool:
    return getattr(node, "name", None) == name and type(node).__name__ == "Name" and name not in bound


def _targets(target: nodes.Node) -> list[str]:
    """The names that an assignment binds (`namespace` attributes bind none)."""
    from jinja2 import nodes as jinja

    if isinstance(target, jinja.Name):
        return [target.name]
    return [name for child in target.iter_child_nodes() for name in _targets(child)]

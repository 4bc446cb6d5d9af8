"""Types of the flow: every expression typed where it stands, and put into the graph.

A variable has one type in the whole flow, found from all its bindings; behind `parallel N` it, and every output bound
inside, is a list until it is bound again. So the type of a read depends on the way to it, which `binding` knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import networkx as nx

from drmas_dsl.diagnostics.diagnostic import Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.binding import Names
from drmas_dsl.graph.conditions import name_read
from drmas_dsl.graph.expressions import parts
from drmas_dsl.graph.skeleton import Pending, label_calls
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.semantics.expressions import Scope, Typed, condition, typed, typed_arguments
from drmas_dsl.semantics.types import ANY, Type, alike, declared, join, list_of
from drmas_dsl.syntax import ast


def type_flow(
    checked: Checked,
    graph: nx.MultiDiGraph,
    names: Names,
    facts: Mapping[str, int],
    pending: list[Pending],
    report: Report,
) -> None:
    """Type the pending expressions, report what is wrong, and put their graph forms into the graph. `facts` are those of
    `binding` before each node that is reached."""
    _Types(checked, graph, names, facts).run(pending, report)


class _Types:
    def __init__(self, checked: Checked, graph: nx.MultiDiGraph, names: Names, facts: Mapping[str, int]) -> None:
        self.checked = checked
        self.graph = graph
        self.names = names
        self.facts = facts
        self.variables: dict[str, Type] = {}
        self.first: dict[str, ast.Expr] = {}
        self.scopes: dict[tuple[int, bool], Scope] = {}

    def run(self, pending: list[Pending], report: Report) -> None:
        bound = [item for item in pending if "bind" in self.graph.nodes[item.node]]
        self.variables = {self.bind(item): ANY for item in bound}
        for _ in range(2):  # a variable may be bound to an expression over one that is bound later
            self.infer(bound)
        for item in pending:
            before = len(report.diagnostics)
            self.place(item, report)
            label_calls(report, before, item.calls)

    def bind(self, item: Pending) -> str:
        return str(self.graph.nodes[item.node]["bind"])

    def infer(self, bound: list[Pending]) -> None:
        """The type of each variable: what its bindings have in common, or else that of the first."""
        types: dict[str, Type] = {}
        self.scopes.clear()
        for item in bound:
            name, found = self.bind(item), self.type_of(item, Report())
            self.first.setdefault(name, item.expr)
            if name not in types or types[name].kind == "none":
                types[name] = found
            elif alike(types[name], found):
                types[name] = join([types[name], found])
        self.variables = types
        self.scopes.clear()

    def type_of(self, item: Pending, report: Report) -> Type:
        if item.key == "args":
            return declared(self.checked.tool_calls[self.graph.nodes[item.node]["tool"]].returns)
        return typed(item.expr, self.scope(item), report).type

    def scope(self, item: Pending) -> Scope:
        """What the expression sees; shared between expressions that see the same."""
        key = (self.names.lists(self.facts.get(item.node, 0)), item.loop)
        if key not in self.scopes:
            facts = self.facts.get(item.node, 0)
            lists = frozenset(name for name in self.names.numbers if key[0] and self.is_list(facts, name))
            variables = {n: list_of(t) if n in lists else t for n, t in self.variables.items()}
            self.scopes[key] = replace(self.checked.scope, variables=variables, lists=lists, loop=item.loop)
        return self.scopes[key]

    def is_list(self, facts: int, name: str) -> bool:
        return self.names.list(facts, name) and not self.names.one(facts, name)

    def place(self, item: Pending, report: Report) -> None:
        """Type one expression for good and put it where it belongs."""
        node = self.graph.nodes[item.node]
        scope = self.scope(item)
        if item.key == "args":
            signature = self.checked.tool_calls[node["tool"]]
            found = typed_arguments(signature, item.bound, scope, report)
            node["args"] = {name: argument.expression for name, argument in found.items()}
            for name, argument in found.items():
                given = item.bound.get(name)
                self.check_ways(
                    item, argument, given if given is not None and not isinstance(given, tuple) else item.expr, report
                )
            self.check_bound(item, declared(signature.returns), report)
            return
        one = condition(item.expr, scope, report) if item.key == "condition" else typed(item.expr, scope, report)
        self.check_ways(item, one, item.expr, report)
        if item.key == "condition":
            edges = self.graph.out_edges(item.node, data=True)
            for _, _, edge in edges:
                if edge["order"] == item.order:
                    edge["condition"] = one.expression
            return
        node["value"] = one.expression
        if "bind" in node:
            self.check_bound(item, one.type, report)

    def check_bound(self, item: Pending, type: Type, report: Report) -> None:
        name = self.bind(item)
        wanted = self.variables[name]
        if not alike(type, wanted):
            label = Label(self.first[name].span, f"bound to {wanted} here")
            shown = name.rpartition(".")[2]
            report.add("E0301", f"`{shown}` is {wanted}, this is {type}", item.expr.span, labels=(label,), help=_TWO)

    def check_ways(self, item: Pending, found: Typed, expr: ast.Expr, report: Report) -> None:
        """Report a read of what is a list on one way and a single value on another."""
        facts = self.facts.get(item.node, 0)
        if not self.names.lists(facts):
            return
        for name in dict.fromkeys(name_read(part) for part in parts(found.expression)):
            if name is not None and self.names.one(facts, name) and self.names.list(facts, name):
                message = f"`{name}` is a list on one way to this place and a single value on another"
                help = Help("read it on each way, or call the agent on both in the same manner")
                report.add("E0509", message, expr.span, help=help)


_TWO = Help("use two variables")

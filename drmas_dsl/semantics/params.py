"""Params: their defaults or overrides as constants, with types and ranges checked.

A default may name other params in any order; a cycle among them is one error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help, Label
from drmas_dsl.semantics.arguments import check_range
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.expressions import FAILED, typed_constant
from drmas_dsl.semantics.suggest import unknown
from drmas_dsl.semantics.types import declared, fits
from drmas_dsl.semantics.walk import names_in
from drmas_dsl.syntax import ast

TYPES = ("int", "float", "bool", "string")


def evaluate_params(
    params: Mapping[str, ast.ParamDecl], overrides: Mapping[str, ast.Expr], context: Context
) -> dict[str, Any]:
    """The params' values, in the order of their declarations; they are put into the context too."""
    open_names: list[str] = []

    def value_of(name: str) -> None:
        if name in context.params:
            return
        declaration = params[name]
        expr = overrides.get(name, declaration.default)
        open_names.append(name)
        for needed in names_in(expr) | names_in(declaration.low) | names_in(declaration.high):
            if needed in open_names and needed not in context.params:
                _cycle(open_names[open_names.index(needed) :], params, context)
            elif needed in params:
                value_of(needed)
        open_names.pop()
        if name not in context.params:
            context.params[name] = _value(declaration, expr, context)

    for name in params:
        value_of(name)
    ordered = {name: context.params[name] for name in params}
    context.params.clear()
    context.params.update(ordered)
    return ordered


def _cycle(names: list[str], params: Mapping[str, ast.ParamDecl], context: Context) -> None:
    first = min(names, key=list(params).index)
    labels = [Label(params[name].name.span, "on the circle") for name in names if name != first]
    message = f"the value of `{first}` depends on itself"
    context.report.add("E0205", message, params[first].name.span, labels=labels)
    context.params.update(dict.fromkeys(names, FAILED))


def _value(declaration: ast.ParamDecl, expr: ast.Expr, context: Context) -> Any:
    kind, name = declaration.type.name, declaration.name.name
    if kind not in TYPES:
        unknown(context.report, "E0201", f"there is no type `{kind}`", kind, declaration.type.span, TYPES)
        return FAILED
    found = typed_constant(expr, context.params, context.report, context.others)
    if found is None:
        return FAILED
    value = found.value
    if not fits(found.type, declared(kind)):
        help = None
        if kind == "int" and isinstance(value, float) and value.is_integer():
            help = Help(f"write {int(value)}", (Edit(expr.span, str(int(value))),))
        elif kind == "string":
            help = Help("put it into quotes")
        message = f"param `{name}` is of type {kind}, this is {found.type}"
        labels = [Label(declaration.type.span, "its type")]
        context.report.add("E0301", message, expr.span, labels=labels, help=help)
        return FAILED
    if kind == "float":
        value = float(value)
    _range(declaration, expr, value, context)
    return value


def _range(declaration: ast.ParamDecl, expr: ast.Expr, value: Any, context: Context) -> None:
    bounds: list[float] = []
    for bound in (declaration.low, declaration.high):
        if bound is None:
            return
        found = typed_constant(bound, context.params, context.report, context.others)
        if found is None:
            return
        if declaration.type.name not in ("int", "float") or found.type.kind not in ("int", "float"):
            context.report.add("E0301", "a range is between two numbers, for a param of type int or float", bound.span)
            return
        bounds.append(found.value)
    low, high = bounds
    if low > high and declaration.low is not None and declaration.high is not None:
        span = declaration.low.span.to(declaration.high.span)
        context.report.add("E0302", f"no value is between {low:g} and {high:g}", span)
        return
    assert declaration.low is not None
    assert declaration.high is not None
    labels = [Label(declaration.low.span.to(declaration.high.span), "its range")]
    check_range(declaration.name.name, value, low, high, expr.span, context.report, labels=labels)

"""Evaluates the graph's expressions over the state of a trajectory. What they mean stands in `drmas_dsl.graph.expressions`.

`none` compares with anything: equal only to itself, and neither above nor below. Arithmetic with it gives it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from drmas_dsl.graph.settings import Expression


class Scope(Protocol):
    """What an expression can read."""

    def output(self, agent: str, name: str) -> Any: ...
    def text(self, agent: str) -> Any: ...
    def variable(self, name: str) -> Any: ...
    def task(self, name: str) -> Any: ...
    def loop(self, name: str) -> Any: ...
    def result(self) -> Any: ...
    def calls(self, agent: str) -> int: ...


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "neg": operator.neg,
}
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expression: Expression, scope: Scope, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of an expression; `functions` holds every function that its calls name.

    Raises:
        TypeError, ZeroDivisionError: operands that do not go together (a column may hold anything).
    """
    match expression["kind"]:
        case "const":
            return expression["value"]
        case "op":
            return _operation(expression["op"], expression["args"], scope, functions)
        case "call":
            arguments = {name: evaluate(arg, scope, functions) for name, arg in expression["args"].items()}
            return functions[expression["function"]](**arguments)
        case "list":
            return [evaluate(item, scope, functions) for item in expression["items"]]
        case "output":
            return scope.output(expression["agent"], expression["name"])
        case "text":
            return scope.text(expression["agent"])
        case "variable":
            return scope.variable(expression["name"])
        case "task":
            return scope.task(expression["name"])
        case "loop":
            return scope.loop(expression["name"])
        case "calls":
            return scope.calls(expression["agent"])
        case "result":
            return scope.result()
        case kind:
            raise ValueError(f"the graph has an expression of the unknown kind {kind!r}")


def _operation(op: str, args: list[Expression], scope: Scope, functions: Mapping[str, Callable[..., Any]]) -> Any:
    if op == "and":
        return all(evaluate(arg, scope, functions) for arg in args)
    if op == "or":
        return any(evaluate(arg, scope, functions) for arg in args)
    values = [evaluate(arg, scope, functions) for arg in args]
    if op == "not":
        return not values[0]
    if op == "==":
        return values[0] == values[1]
    if op == "!=":
        return values[0] != values[1]
    if op in _ORDER:
        return None not in values and _ORDER[op](*values)
    return None if None in values else _ARITHMETIC[op](*values)

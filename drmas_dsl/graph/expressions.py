"""Expressions as the graph carries them: plain JSON, every name resolved, every call's arguments bound by name.

    {"kind": "const", "value": v}                          a number, string, bool or null
    {"kind": "output", "agent": A, "name": o}              an output of A's latest turn (a list after `parallel N`)
    {"kind": "text", "agent": A}                           the text of A's latest turn
    {"kind": "variable", "name": x}                        a variable of the flow
    {"kind": "task", "name": c}                            a column of the question
    {"kind": "loop", "name": "index" | "last" | "max"}     of the innermost loop around the node
    {"kind": "result"}                                     the returned value (rewards only)
    {"kind": "calls", "agent": A}                          how often A was called (rewards only)
    {"kind": "op", "op": o, "args": [...]}                 or and not == != < <= > >= + - * / % neg
    {"kind": "list", "items": [...]}
    {"kind": "call", "function": f, "args": {...}}         a reducer or reward; the args are expressions

`none` is null; what is not bound yet reads as null; comparisons with null other than == and != are false; arithmetic
with null gives null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drmas_dsl.graph.settings import Expression


def const(value: Any) -> Expression:
    """The expression of a constant."""
    return {"kind": "const", "value": value}


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all expressions inside it, outermost first."""
    yield expression
    args = expression.get("args", expression.get("items", ()))
    for part in args.values() if isinstance(args, dict) else args:
        yield from parts(part)

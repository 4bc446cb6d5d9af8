"""Constants among the graph's expressions, and the arithmetic on them at compile time.

The same operations as the runtime's, on known values only; types are checked before, in `expressions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from drmas_dsl.graph.settings import Expression

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "unknown"})()


def constant_value(expression: Expression) -> Any:
    """The value of a constant or of a list of constants, else `UNKNOWN`."""
    if expression["kind"] == "const":
        return expression["value"]
    if expression["kind"] == "list":
        values = [constant_value(item) for item in expression["items"]]
        return UNKNOWN if any(value is UNKNOWN for value in values) else values
    return UNKNOWN


def _truth(value: Any) -> bool:
    return value is True


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "neg": operator.neg,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "not": lambda value: not _truth(value),
    "and": lambda left, right: _truth(left) and _truth(right),
    "or": lambda left, right: _truth(left) or _truth(right),
}

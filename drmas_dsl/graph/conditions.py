"""What conditions say without running anything: whether they hold in an iteration, and what must be bound when they do.

Three-valued: true, false or unknown (None). Only constants and `loop.*` are known here; outputs, variables and columns
never are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drmas_dsl.graph.expressions import parts
from drmas_dsl.graph.settings import Expression


@dataclass(frozen=True, slots=True)
class Iteration:
    """The iterations `low` to `high` (from 1) of a loop that runs `max` times."""

    low: int
    high: int
    max: int


_UNKNOWN: Any = object()


def reads_loop(expression: Expression) -> bool:
    """Whether the expression reads `loop.index`, `loop.last` or `loop.max`."""
    return any(part["kind"] == "loop" for part in parts(expression))


def truth(expression: Expression, iteration: Iteration | None) -> bool | None:
    """Whether a condition holds in such an iteration of the innermost loop; None where that is not known."""
    value = _value(expression, iteration)
    return value if isinstance(value, bool) else None


def _value(expression: Expression, iteration: Iteration | None) -> Any:
    """A constant, a range of integers as (low, high), or unknown."""
    match expression:
        case {"kind": "const", "value": value}:
            return value
        case {"kind": "loop", "name": name} if iteration is not None:
            if name == "index":
                return (iteration.low, iteration.high)
            if name == "max":
                return iteration.max
            if iteration.high < iteration.max:
                return False
            return True if iteration.low == iteration.max else _UNKNOWN
        case {"kind": "op", "op": op, "args": args}:
            return _operation(op, [_value(part, iteration) for part in args])
    return _UNKNOWN


def _operation(op: str, values: list[Any]) -> Any:
    if op == "not":
        return not values[0] if isinstance(values[0], bool) else _UNKNOWN
    if op in ("and", "or"):
        decisive = op == "or"
        if any(value is decisive for value in values):
            return decisive
        return (not decisive) if all(isinstance(value, bool) for value in values) else _UNKNOWN
    if op == "neg" or any(value is _UNKNOWN for value in values):
        return _UNKNOWN
    return _pair(op, *values)


def _pair(op: str, left: Any, right: Any) -> Any:
    """A comparison or sum of two known values or ranges."""
    (a, b), (c, d) = _range(left), _range(right)
    if a is None or c is None:
        comparable = not (_is_range(left) or _is_range(right)) and op in ("==", "!=")
        return (left == right) is (op == "==") if comparable else _UNKNOWN
    match op:
        case "+":
            return (a + c, b + d)
        case "-":
            return (a - d, b - c)
        case "<" | ">=":
            known = True if b < c else False if a >= d else None
            return _UNKNOWN if known is None else known is (op == "<")
        case ">" | "<=":
            known = True if a > d else False if b <= c else None
            return _UNKNOWN if known is None else known is (op == ">")
        case "==" | "!=":
            known = True if a == b == c == d else False if b < c or a > d else None
            return _UNKNOWN if known is None else known is (op == "==")
    return _UNKNOWN


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple)


def _range(value: Any) -> tuple[Any, Any]:
    if _is_range(value):
        return value
    return (value, value) if isinstance(value, (int, float)) and not isinstance(value, bool) else (None, None)


# What is bound


def name_read(expression: Expression) -> str | None:
    """The agent or variable that the expression itself reads."""
    if expression["kind"] in ("output", "text"):
        return str(expression["agent"])
    return str(expression["name"]) if expression["kind"] == "variable" else None


def bound_when(expression: Expression, holds: bool) -> frozenset[str]:
    """The agents and variables that are certainly bound when the condition is true (or, `holds` false, when it is not)."""
    name = name_read(expression)
    if name is not None:
        return frozenset({name}) if holds else frozenset()
    if expression["kind"] != "op":
        return frozenset()
    op, args = expression["op"], expression["args"]
    if op == "not":
        return bound_when(args[0], not holds)
    if op == ("and" if holds else "or"):
        return bound_when(args[0], holds) | bound_when(args[1], holds)
    if _asks_for_none(expression):
        return _names(args) if holds is (op == "!=") else frozenset()
    if holds and op in ("==", "<", "<=", ">", ">=") and (op != "==" or any(_is_value(arg) for arg in args)):
        return _names(args)
    return frozenset()


def risky_reads(
    expression: Expression, known: frozenset[str], iteration: Iteration | None = None
) -> Iterator[Expression]:
    """The reads that would be `none` without notice if their agent or variable was not bound: all but those that are
    compared with `none`, stand behind such a question, or do not matter in this iteration."""
    name = name_read(expression)
    if name is not None:
        if name not in known:
            yield expression
        return
    if expression["kind"] == "op" and expression["op"] in ("and", "or"):
        left, right = expression["args"]
        conjunction = expression["op"] == "and"
        yield from risky_reads(left, known, iteration)
        if truth(left, iteration) is not (not conjunction):
            yield from risky_reads(right, known | bound_when(left, conjunction), iteration)
        return
    if expression["kind"] == "op" and _asks_for_none(expression):
        return
    args = expression.get("args", expression.get("items", ()))
    for part in args.values() if isinstance(args, dict) else args:
        yield from risky_reads(part, known, iteration)


def _asks_for_none(expression: Expression) -> bool:
    none = {"kind": "const", "value": None}
    return expression["op"] in ("==", "!=") and none in (dict(part) for part in expression["args"])


def _is_value(expression: Expression) -> bool:
    return expression["kind"] == "const" and expression["value"] is not None


def _names(args: list[Expression]) -> frozenset[str]:
    return frozenset(name for part in args if (name := name_read(part)) is not None)

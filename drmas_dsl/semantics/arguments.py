"""Matching the arguments of a call with a signature: by position, by name, the rest by default.

Knows nothing of where the call stands: `expressions` types the arguments of what the runtime evaluates, `calls` those
of settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.functions import REQUIRED, Parameter, Signature
from drmas_dsl.semantics.suggest import unknown
from drmas_dsl.semantics.types import Type, declared, fits
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

STAR = "*"

Bound = dict[str, ast.Expr | tuple[ast.Expr, ...]]


def parameters_by_name(signature: Signature) -> dict[str, Parameter]:
    """The parameters by the name that an argument uses (without the star)."""
    return {parameter.name.lstrip(STAR): parameter for parameter in signature.parameters}


def usage(signature: Signature) -> str:
    """How the function is called, in one line: `stats(mean, std)`, `grpo(clip = 0.2, …)`."""
    parts = []
    for parameter in signature.parameters:
        if parameter.name.startswith(STAR):
            parts.append(f"{parameter.name.lstrip(STAR)}…")
        elif parameter.default is REQUIRED:
            parts.append(parameter.name)
        else:
            parts.append(f"{parameter.name} = {_shown(parameter.default)}")
    return f"{signature.name}({', '.join(parts)})"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'
    return {None: "none", True: "true", False: "false"}.get(value, str(value)) if not isinstance(value, list) else "[…]"


def bind(call: ast.Call, signature: Signature, report: Report) -> Bound | None:
    """The arguments by parameter name, without defaults; a starred parameter takes a tuple. None where the call does
    not fit the signature (reported)."""
    parameters = parameters_by_name(signature)
    free = list(signature.parameters)
    bound: Bound = {}
    failed = False
    for argument in call.arguments:
        if argument.name is None:
            failed |= not _positional(argument, free, bound, signature, report)
        elif argument.name.name not in parameters:
            name = argument.name
            unknown(
                report, "E0306", f"`{signature.name}` has no argument `{name.name}`", name.name, name.span, parameters
            )
            failed = True
        elif argument.name.name in bound:
            report.add("E0306", f"`{argument.name.name}` is given twice", argument.span)
            failed = True
        else:
            bound[argument.name.name] = argument.value
            free = [parameter for parameter in free if parameter.name.lstrip(STAR) != argument.name.name]
    missing = [p.name for n, p in parameters.items() if p.default is REQUIRED and n not in bound]
    if missing and not failed:
        names = " and ".join(f"`{name.lstrip(STAR)}`" for name in missing)
        help = Help(f"it is called as `{usage(signature)}`")
        report.add("E0306", f"`{signature.name}` needs {names}", call.function.span, help=help)
        failed = True
    return None if failed else bound


def _positional(
    argument: ast.Argument, free: list[Parameter], bound: Bound, signature: Signature, report: Report
) -> bool:
    if not free:
        takes = len(signature.parameters)
        count = "no arguments" if takes == 0 else "one argument" if takes == 1 else f"at most {takes} arguments"
        help = Help(f"it is called as `{usage(signature)}`")
        report.add("E0306", f"`{signature.name}` takes {count}", argument.span, help=help)
        return False
    parameter = free[0]
    name = parameter.name.lstrip(STAR)
    if parameter.name.startswith(STAR):
        rest = bound.get(name, ())
        assert isinstance(rest, tuple)
        bound[name] = (*rest, argument.value)
        return True
    bound[name] = argument.value
    free.pop(0)
    return True


def check_argument(
    signature: Signature, parameter: Parameter, type: Type, value: Any, span: Span, report: Report
) -> bool:
    """Report an argument of the wrong type or out of range (`value` is None where it is not known yet)."""
    name = parameter.name.lstrip(STAR)
    wanted = declared(parameter.type)
    if not fits(type, wanted):
        help = None
        if wanted.kind == "list":
            help = Help("lists come from `parallel N { … }`, or are written `[a, b]`")
        elif type.kind == "list":
            help = Help("reduce the list to one value: `vote(…)`, `first(…)` or `concat(…)`")
        report.add("E0301", f"`{name}` of `{signature.name}` is {wanted}, this is {type}", span, help=help)
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return check_range(name, value, parameter.low, parameter.high, span, report)
    return True


def check_range(
    name: str,
    value: float,
    low: float | None,
    high: float | None,
    span: Span,
    report: Report,
    above: bool = False,
    unit: str = "",
    labels: Iterable[Label] = (),
) -> bool:
    """Report a number outside of [low, high], or (low, high] with `above`."""
    too_low = low is not None and (value <= low if above else value < low)
    too_high = high is not None and value > high
    if not (too_low or too_high) and math.isfinite(value):
        return True
    bounds = []
    if low is not None:
        bounds.append(f"{'above' if above else 'at least'} {low:g}")
    if high is not None:
        bounds.append(f"at most {high:g}")
    wanted = " and ".join(bounds) or "finite"
    shown = f"{wanted} ({unit})" if unit else wanted
    report.add("E0302", f"`{name}` has to be {shown}, not {value:g}", span, labels=labels)
    return False

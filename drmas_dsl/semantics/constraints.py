"""What signatures cannot say of the calls of settings: choices, patterns, and arguments that go together.

One function per function of the language, reached through a table. Types and ranges are done before this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.arguments import Bound
from drmas_dsl.semantics.functions import Signature
from drmas_dsl.semantics.suggest import listed, nearest
from drmas_dsl.syntax import ast

Check = Callable[[ast.Call, Mapping[str, Any], Bound, Report], bool]


def check_call(signature: Signature, call: ast.Call, args: Mapping[str, Any], bound: Bound, report: Report) -> bool:
    """Whether the arguments of a call make sense together; what does not is reported. `args` are the values, `bound` the
    expressions of those that were given."""
    check = _CHECKS.get((signature.kind, signature.name))
    return check is None or check(call, args, bound, report)


def _regex(call: ast.Call, args: Mapping[str, Any], bound: Bound, report: Report) -> bool:
    try:
        re.compile(args["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        report.add("E0311", f"this is no regular expression: {error}", _place(bound, "pattern", call).span)
        return False
    return True


def _choice(call: ast.Call, args: Mapping[str, Any], bound: Bound, report: Report) -> bool:
    options: list[str] = args["options"]
    if not options:
        report.add("E0311", "`choice` needs its options", call.span, help=Help('`choice("yes", "no")`'))
        return False
    given = bound["options"]
    places = [part.span for part in given] if isinstance(given, tuple) else [given.span] * len(options)
    seen: set[str] = set()
    for option, span in zip(options, places, strict=True):
        key = option.strip().casefold()
        if not key or key in seen:
            problem = "an option of `choice` is empty" if not key else f'"{option}" is given twice'
            report.add("E0311", problem, span, notes=["options match stripped and without regard to case"])
            return False
        seen.add(key)
    default = bound.get("default")
    if default is None or isinstance(default, tuple) or args["default"] is None or args["default"] in options:
        return True
    match = nearest(args["default"], options)
    help = Help(f'did you mean "{match}"?', (Edit(default.span, f'"{match}"'),)) if match else None
    notes = ["the options are " + listed(options, quote='"')]
    report.add("E0311", f'the default "{args["default"]}" is none of the options', default.span, notes=notes, help=help)
    return False


def _http_retriever(call: ast.Call, args: Mapping[str, Any], bound: Bound, report: Report) -> bool:
    if bool(args["url"]) != bool(args["urls"]):
        return True
    problem = "`url` and `urls` are both given" if args["url"] else "`http_retriever` needs `url` or `urls`"
    help = Help('write `url = "http://…/retrieve"`, or `urls = ["…", "…"]` for several servers of one corpus')
    report.add("E0306", problem, call.function.span, help=help)
    return False


def _dataset(call: ast.Call, args: Mapping[str, Any], bound: Bound, report: Report) -> bool:
    for name in ("split", "config"):
        if args[name] is not None and not isinstance(args["path"], str):
            help = Help("remove it")
            report.add("E0306", f"only datasets of the hub have a `{name}`", _place(bound, name, call).span, help=help)
            return False
    return True


def _mix(call: ast.Call, args: Mapping[str, Any], bound: Bound, report: Report) -> bool:
    count, weights = len(args["datasets"]), args["weights"]
    if count < 2:
        help = Help('`mix(dataset("a.jsonl"), dataset("b.jsonl"), weights = [0.7, 0.3])`')
        report.add("E0306", "`mix` needs two datasets or more", call.function.span, help=help)
        return False
    if weights is None:
        return True
    place = _place(bound, "weights", call).span
    if len(weights) != count:
        report.add("E0306", f"{len(weights)} weights for {count} datasets", place, help=Help("give one for each"))
        return False
    if any(weight <= 0 for weight in weights):
        report.add("E0302", "a weight is above 0", place, help=Help("leave a dataset away that is not to be drawn"))
        return False
    return True


def _place(bound: Bound, name: str, call: ast.Call) -> ast.Expr:
    """Where an argument stands."""
    given = bound.get(name, call)
    return call if isinstance(given, tuple) else given


_CHECKS: dict[tuple[str, str], Check] = {
    ("parser", "choice"): _choice,
    ("parser", "regex"): _regex,
    ("tool", "http_retriever"): _http_retriever,
    ("dataset", "dataset"): _dataset,
    ("dataset", "mix"): _mix,
}

"""Settings whose values are calls: `engine = vllm(gpu_memory = 0.5)`, `train = dataset("…")`, `output x = boxed()`.

All arguments are known at compile time; what comes out is a `settings.Call` with every argument bound by name,
defaults included. Calls that the runtime evaluates are the business of `expressions`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.graph.datafiles import data_files, is_hub_id, is_pattern
from drmas_dsl.graph.settings import Call
from drmas_dsl.semantics.arguments import bind, check_argument, parameters_by_name
from drmas_dsl.semantics.constraints import check_call
from drmas_dsl.semantics.context import Context, missing_file
from drmas_dsl.semantics.expressions import typed_constant
from drmas_dsl.semantics.functions import FUNCTIONS, OMITTED, Parameter, Signature
from drmas_dsl.semantics.plugins import KINDS, installed_function
from drmas_dsl.semantics.suggest import listed, nearest, unknown
from drmas_dsl.semantics.types import declared
from drmas_dsl.syntax import ast

BAD: Any = type("Bad", (), {"__repr__": lambda self: "bad"})()

WHAT = {
    "parser": "a parser",
    "reducer": "a reducer of lists",
    "reward": "a reward",
    "tool": "a tool",
    "dataset": "a dataset",
    "weights": "weights",
    "engine": "an engine",
    "algorithm": "an algorithm",
    "normalize": "a normalisation",
}


def signature_of(name: ast.Ident, kind: str, context: Context) -> Signature | None:
    """The function `name` of a kind: built in, of a plug-in, or of an installed package; otherwise reported."""
    signature = FUNCTIONS.get((kind, name.name))
    if signature is not None:
        return signature
    if kind in KINDS:
        function = context.plugins.get(name.name) or installed_function(name.name)
        if function is not None:
            return function.signature(kind)
    known = [other for of_kind, other in FUNCTIONS if of_kind == kind]
    if kind in KINDS:
        known += context.plugins
    other_kinds = [of_kind for of_kind, other in FUNCTIONS if other == name.name]
    if other_kinds:
        help = Help(f"one of {listed(known)}")
        message = f"`{name.name}` is {WHAT[other_kinds[0]]}, not {WHAT[kind]}"
        context.report.add("E0309", message, name.span, help=help)
    elif name.name in context.others:
        help = Help(f"one of {listed(known)}")
        message = f"`{name.name}` is {context.others[name.name]}, not {WHAT[kind]}"
        context.report.add("E0211", message, name.span, help=help)
    else:
        unknown(
            context.report,
            "E0207",
            f"there is no {WHAT[kind].split(' ', 1)[-1]} `{name.name}`",
            name.name,
            name.span,
            known,
        )
    return None


def bind_call(expr: ast.Expr, kind: str, context: Context) -> Call | None:
    """The call of a function of a kind; a function without arguments may stand as its bare name. None is reported."""
    if isinstance(expr, ast.Name):
        expr = ast.Call(ast.Ident(expr.name, expr.span), (), expr.span)
    if not isinstance(expr, ast.Call):
        known = [f"{name}(…)" for of_kind, name in FUNCTIONS if of_kind == kind]
        context.report.add("E0301", f"this has to be {WHAT[kind]}", expr.span, help=Help(f"one of {listed(known)}"))
        return None
    signature = signature_of(expr.function, kind, context)
    bound = None if signature is None else bind(expr, signature, context.report)
    if signature is None or bound is None:
        return None
    args: dict[str, Any] = {}
    failed = False
    for name, parameter in parameters_by_name(signature).items():
        given = bound.get(name)
        if given is None and parameter.default is OMITTED:
            continue
        args[name] = _default(parameter) if given is None else argument(given, parameter, signature, context)
        failed |= args[name] is BAD
    if failed or not check_call(signature, expr, args, bound, context.report):
        return None
    return Call(signature.name, args)


def _default(parameter: Parameter) -> Any:
    default = parameter.default
    return list(default) if isinstance(default, (list, tuple)) else default


def argument(
    given: ast.Expr | tuple[ast.Expr, ...], parameter: Parameter, signature: Signature, context: Context
) -> Any:
    """The value of one argument of a setting's call, or `BAD` (reported)."""
    if isinstance(given, tuple):
        item = Parameter(parameter.name, parameter.type.removeprefix("list:"), None)
        items = [argument(part, item, signature, context) for part in given]
        return BAD if any(part is BAD for part in items) else items
    if parameter.type.startswith("call:"):
        call = bind_call(given, parameter.type.removeprefix("call:"), context)
        return BAD if call is None else call
    if parameter.type in ("path", "package_path", "data"):
        return _path(given, parameter, signature, context)
    if parameter.choices:
        return enumerated(given, parameter.name, parameter.choices, context)
    found = typed_constant(given, context.params, context.report, context.others)
    if found is None:
        return BAD
    value = found.value
    if not check_argument(signature, parameter, found.type, value, given.span, context.report):
        return BAD
    return float(value) if declared(parameter.type).kind == "float" and isinstance(value, int) else value


def _path(given: ast.Expr, parameter: Parameter, signature: Signature, context: Context) -> Any:
    found = typed_constant(given, context.params, context.report, context.others)
    if found is None:
        return BAD
    if not check_argument(signature, parameter, found.type, None, given.span, context.report):
        return BAD
    text = given if isinstance(given, ast.Text) else ast.Text(found.value, False, (), given.span)
    if parameter.type == "package_path" and re.match(r"[A-Za-z_][\w.]+:", text.value):
        return text.value
    if parameter.type == "data":
        return _data(text, context)
    what = {"dataset": "dataset", "weights": "file of weights"}.get(signature.kind, "file")
    there = os.path.exists if signature.kind not in ("dataset", "weights") else os.path.isfile
    return context.value(text.value, text.span.file) if context.exists(text, what, there) else BAD


def _data(text: ast.Text, context: Context) -> Any:
    """The files of a dataset as a path value, or a hub id as it is; else `BAD` (reported)."""
    absolute = context.absolute(text.value, text.span.file)
    if "\0" in text.value or os.path.exists(absolute):
        return context.value(text.value, text.span.file) if context.exists(text, "dataset", os.path.exists) else BAD
    if is_pattern(text.value):
        if data_files(absolute):
            return context.value(text.value, text.span.file)
        context.report.add("E0701", f"no file matches `{text.value}`", text.span)
        return BAD
    if is_hub_id(text.value, absolute):
        return text.value
    missing_file(text, absolute, "dataset", context.report)
    return BAD


def enumerated(expr: ast.Expr, name: str, choices: tuple[str, ...], context: Context) -> Any:
    """One of an enumeration's values, as a bare name, a string, or a param that holds it; else `BAD` (reported)."""
    value: Any
    if isinstance(expr, ast.Name) and (expr.name in choices or expr.name not in context.params):
        value = expr.name
    elif isinstance(expr, ast.Literal) and expr.value is None:
        value = "none"  # the word is a value of some enumerations
    else:
        found = typed_constant(expr, context.params, context.report, context.others)
        if found is None:
            return BAD
        value = found.value
    if value in choices:
        return value
    match = nearest(str(value), choices)
    quote = '"' if isinstance(expr, ast.Text) else ""
    edits = (Edit(expr.span, f"{quote}{match}{quote}"),) if match else ()
    help = Help(f"did you mean `{match}`?" if match else f"one of {listed(choices)}", edits)
    notes = [f"it is one of {listed(choices)}"] if match else []
    context.report.add("E0310", f"`{name}` cannot be `{value}`", expr.span, notes=notes, help=help)
    return BAD

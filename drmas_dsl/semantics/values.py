"""Settings against the schema: a `Node` becomes a record of `graph.settings`, and every deviation a finding.

Type, range, unit, enumeration and block come from the fields' `Facts`; there is no second list of settings here.
Expressions over the task and datasets by name are left to `resolve`, which knows their scope.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.graph.settings import BLOCKS, Call, Facts
from drmas_dsl.semantics.arguments import check_range
from drmas_dsl.semantics.calls import BAD, bind_call, enumerated
from drmas_dsl.semantics.context import Context, missing_file
from drmas_dsl.semantics.declarations import read_source
from drmas_dsl.semantics.expressions import typed_constant
from drmas_dsl.semantics.functions import FUNCTIONS
from drmas_dsl.semantics.nodes import Node
from drmas_dsl.semantics.suggest import nearest, unknown
from drmas_dsl.semantics.types import declared, fits
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


@functools.cache
def facts_of(cls: type) -> dict[str, Facts]:
    """The settings that users may write in a block, by name."""
    facts = {field.name: field.metadata["facts"] for field in dataclasses.fields(cls)}
    return {name: found for name, found in facts.items() if not found.computed}


def record(cls: type, what: str, node: Node, path: str, context: Context, **computed: Any) -> Any:
    """The record of a block; what is wrong in it (reported) keeps its default. `what` names the block in messages."""
    found = values(cls, what, node, path, context)
    return cls(**{name: value for name, value in found.items() if value is not BAD}, **computed)


def values(cls: type, what: str, node: Node, path: str, context: Context) -> dict[str, Any]:
    """The values of the settings that are given, and default calls, by name; nested blocks as records, wrong ones as `BAD`."""
    facts = facts_of(cls)
    found: dict[str, Any] = {}
    for name, setting in node.settings.items():
        context.places[f"{path}.{name}"] = setting.name.span
        key = id(setting)
        if key not in context.values:
            context.values[key] = _checked(cls, what, setting, context)
        if name in facts and facts[name].type not in ("expr", "datasets"):
            found[name] = context.values[key]
    for name, block in node.blocks.items():
        context.places[f"{path}.{name}"] = block.place
        if name in facts and facts[name].type == "block":
            found[name] = record(BLOCKS[name], f"`{name}`", block, f"{path}.{name}", context)
        elif not (name in facts and facts[name].type == "datasets"):
            _unknown_block(cls, what, name, block, context)
    return _default_calls(cls) | found


@functools.cache
def _default_calls(cls: type) -> dict[str, Any]:
    """The default calls of a block with all of their arguments."""
    empty = cls()
    calls: dict[str, Any] = {}
    for name, facts in facts_of(cls).items():
        default = getattr(empty, name)
        if isinstance(default, Call) and facts.type.startswith("call:"):
            signature = FUNCTIONS[facts.type[5:], default.function]
            calls[name] = Call(default.function, {p.name: p.default for p in signature.parameters})
    return calls


def _checked(cls: type, what: str, setting: ast.Setting, context: Context) -> Any:
    name, facts = setting.name.name, facts_of(cls).get(setting.name.name)
    if facts is None:
        _unknown_setting(cls, what, setting.name, context)
        return BAD
    if facts.type == "block":
        help = Help(f"write `{name} {{ … }}`")
        context.report.add("E0301", f"`{name}` is a block of settings, not a value", setting.name.span, help=help)
        return BAD
    if facts.type in ("expr", "datasets"):
        return None
    return value_of(setting.value, name, facts, context)


def _unknown_setting(cls: type, what: str, name: ast.Ident, context: Context) -> None:
    message = f"{what} has no setting `{name.name}`"
    facts = facts_of(cls)
    inner = [block for block, fact in facts.items() if fact.type == "block" and name.name in facts_of(BLOCKS[block])]
    outer = [block for block, other in BLOCKS.items() if name.name in facts_of(other) and other is not cls]
    if inner:
        context.report.add("E0206", message, name.span, help=Help(f"it stands in `{inner[0]} {{ … }}`"))
    elif nearest(name.name, facts) is None and outer:
        context.report.add("E0206", message, name.span, help=Help(f"it is a setting of `{outer[0]}`"))
    else:
        unknown(context.report, "E0206", message, name.name, name.span, facts)


def _unknown_block(cls: type, what: str, name: str, block: Node, context: Context) -> None:
    key = hash(("block", block.place))
    if key in context.values:
        return
    context.values[key] = BAD
    facts = facts_of(cls)
    if name in facts:
        context.report.add("E0301", f"`{name}` is a value, not a block", block.place, help=Help(f"write `{name} = …`"))
        return
    known = [other for other, fact in facts.items() if fact.type in ("block", "datasets")]
    unknown(context.report, "E0206", f"{what} has no block `{name}`", name, block.place, known)


# Values


def value_of(expr: ast.Expr, name: str, facts: Facts, context: Context) -> Any:
    """The value of one setting, or `BAD` (reported)."""
    kind = facts.type.removesuffix("?")
    if kind == "enum":
        return enumerated(expr, name, facts.choices, context)
    if kind == "text":
        return _prompt(expr, name, context)
    if kind == "call:weights":
        return _weights(expr, context)
    if kind.startswith("call:"):
        call = bind_call(expr, kind[5:], context)
        return BAD if call is None else call
    if kind == "ref:model":
        return _model(expr, name, context)
    if kind.startswith("list:"):
        return _list(expr, name, facts, context)
    found = typed_constant(expr, context.params, context.report, context.others)
    if found is None:
        return BAD
    if not fits(found.type, declared(facts.type)):
        _wrong_type(expr, name, facts, found.value, str(found.type), context)
        return BAD
    value = found.value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not check_range(name, value, facts.low, facts.high, expr.span, context.report, facts.above, facts.unit):
            return BAD
        return float(value) if kind == "float" else value
    return value


def _wrong_type(expr: ast.Expr, name: str, facts: Facts, value: Any, actual: str, context: Context) -> None:
    help = None
    wanted = facts.type.removesuffix("?")
    if wanted == "int" and isinstance(value, float) and value.is_integer():
        help = Help(f"write {int(value)}", (Edit(expr.span, str(int(value))),))
    elif wanted in ("int", "float", "bool") and isinstance(value, str) and value and not re.search(r"\s", value):
        help = Help("leave the quotes away", (Edit(expr.span, value),))
    elif wanted == "string" and value is not None:
        help = Help("put it into quotes")
    unit = f" ({facts.unit})" if facts.unit else ""
    optional = " or none" if facts.type.endswith("?") else ""
    context.report.add("E0301", f"`{name}` is of type {wanted}{unit}{optional}, this is {actual}", expr.span, help=help)


def _list(expr: ast.Expr, name: str, facts: Facts, context: Context) -> Any:
    item_facts = dataclasses.replace(facts, type=facts.type.removeprefix("list:"), length=0)
    if not isinstance(expr, ast.ListExpr):
        report = context.report
        source = context.sources.get(expr.span.file)
        text = source.text[expr.span.start : expr.span.end] if source else ""
        help = Help("put it into brackets", (Edit(expr.span, f"[{text}]"),) if text else ())
        report.add("E0301", f"`{name}` is a list", expr.span, help=help)
        return BAD
    items = [value_of(item, name, item_facts, context) for item in expr.items]
    if facts.length and len(items) != facts.length:
        context.report.add("E0301", f"`{name}` has {facts.length} numbers, not {len(items)}", expr.span)
        return BAD
    return BAD if any(item is BAD for item in items) else tuple(items)


def _model(expr: ast.Expr, name: str, context: Context) -> Any:
    if isinstance(expr, ast.Text) and expr.value in context.models:
        help = Help("leave the quotes away", (Edit(expr.span, expr.value),))
        context.report.add("E0301", f"`{name}` names a model, this is a string", expr.span, help=help)
    elif not isinstance(expr, ast.Name):
        context.report.add("E0301", f"`{name}` names a model", expr.span, help=Help("write the model's name"))
    elif expr.name in context.models:
        return expr.name
    elif expr.name in context.others:
        context.report.add("E0211", f"`{expr.name}` is {context.others[expr.name]}, not a model", expr.span)
    else:
        unknown(context.report, "E0201", f"there is no model `{expr.name}`", expr.name, expr.span, context.models)
    return BAD


def _prompt(expr: ast.Expr, name: str, context: Context) -> Any:
    """The prompt's template as an `ast.Text` whose offsets lie in the file that holds it."""
    if isinstance(expr, ast.Text):
        return expr
    if isinstance(expr, ast.Name) and isinstance(text := context.params.get(expr.name), str):
        return ast.Text(text, False, (expr.span.start,) * (len(text) + 1), expr.span)
    argument = expr.arguments[0] if isinstance(expr, ast.Call) and len(expr.arguments) == 1 else None
    if not isinstance(expr, ast.Call) or expr.function.name != "file":
        help = Help('write `"""…"""` or `file("prompts/name.j2")`')
        if isinstance(expr, ast.Call) and nearest(expr.function.name, ["file"]):
            span = expr.function.span
            unknown(
                context.report, "E0207", f"there is no `{expr.function.name}(…)`", expr.function.name, span, ["file"]
            )
        else:
            context.report.add("E0301", f"`{name}` is a text or a file", expr.span, help=help)
        return BAD
    if argument is None or argument.name is not None or not isinstance(argument.value, ast.Text):
        context.report.add("E0306", "`file` takes one path", expr.span, help=Help('write `file("prompts/name.j2")`'))
        return BAD
    path = argument.value
    if not context.exists(path, "prompt"):
        return BAD
    shown = os.path.normpath(os.path.join(os.path.dirname(path.span.file), path.value)).replace(os.sep, "/")
    source = context.sources.get(shown) or read_source(
        shown, context.absolute(path.value, path.span.file), path, context
    )
    if source is None:
        return BAD
    length = len(source.text)
    return ast.Text(source.text, False, tuple(range(length + 1)), Span(shown, 0, length))


_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def _weights(expr: ast.Expr, context: Context) -> Any:
    """A hub id as a string, a folder as a path value, or the call of a function of weights."""
    is_call = isinstance(expr, ast.Call) or (isinstance(expr, ast.Name) and ("weights", expr.name) in FUNCTIONS)
    if is_call:
        call = bind_call(expr, "weights", context)
        return BAD if call is None else call
    found = typed_constant(expr, context.params, context.report, context.others)
    if found is None:
        return BAD
    if not isinstance(found.value, str):
        help = Help('write a hub id, a folder, `gguf("file.gguf")` or `tiny()`')
        context.report.add("E0301", f"`weights` is a string or a call, this is {found.type}", expr.span, help=help)
        return BAD
    text = expr if isinstance(expr, ast.Text) else ast.Text(found.value, False, (), expr.span)
    absolute = context.absolute(text.value, text.span.file)
    if text.value and os.path.isdir(absolute):
        return context.value(text.value, text.span.file)
    if text.value.endswith(".gguf"):
        help = Help("name the file in `gguf(…)`", (Edit(expr.span, f'gguf("{text.value}")'),))
        context.report.add("E0301", "`weights` is a folder or a hub id, this is a GGUF file", expr.span, help=help)
        return BAD
    if text.value.startswith(("./", "../", "/", "~")) or not _HUB_ID.fullmatch(text.value):
        missing_file(text, absolute, "folder of weights", context.report)
        return BAD
    return text.value

"""Functions that users add: `use "my_rewards.py"`, or an installed package's entry point (group `drmasc.functions`).

Python files are read with `ast` and never executed. A typed function becomes a signature; what it is for follows
from where it is used:

    reward    all parameters are the arguments of the expression
    dataset   all parameters are the arguments of the setting; a first one without a type is a path
    parser    the first parameter is the response's text, the others are the arguments of the setting
    tool      keyword-only parameters are the arguments of `tool name = …`, the others those of its calls in the flow
"""

from __future__ import annotations

import ast as python
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.functions import OMITTED, REQUIRED, Parameter, Signature
from drmas_dsl.syntax.source import Source, Span

GROUP = "drmasc.functions"
KINDS = ("reward", "parser", "tool", "dataset")


@dataclass(frozen=True, slots=True)
class PluginFunction:
    """A function of a Python file, before it is known what it is used for."""

    name: str
    positional: tuple[Parameter, ...]
    keyword: tuple[Parameter, ...]
    returns: str
    doc: str
    span: Span

    def signature(self, kind: str) -> Signature:
        """The signature for a use; for a tool, that of its declaration."""
        parameters = (*self.positional, *self.keyword)
        if kind == "parser":
            parameters = parameters[1:]
        elif kind == "tool":
            parameters = self.keyword
        elif kind == "dataset" and parameters and parameters[0].type == "any":
            first = parameters[0]
            parameters = (Parameter(first.name, "path", first.default), *parameters[1:])
        return Signature(self.name, kind, parameters, self.returns, self.doc)

    def tool_call(self) -> Signature:
        """The signature of a tool's calls in the flow."""
        return Signature(self.name, "tool", self.positional, self.returns, self.doc)


def read_plugin(source: Source, report: Report) -> list[PluginFunction]:
    """The public functions of a Python file, in order; a file that is no Python is reported."""
    try:
        module = python.parse(source.text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        start = source.line_starts[min(line, len(source.line_starts)) - 1] + max(
            (getattr(error, "offset", 1) or 1) - 1, 0
        )
        span = Span(source.file, start, start + 1)
        report.add("E0704", f"the plug-in is not valid Python: {getattr(error, 'msg', error)}", span)
        return []
    functions = [node for node in module.body if isinstance(node, (python.FunctionDef, python.AsyncFunctionDef))]
    return [_function(node, source) for node in functions if not node.name.startswith("_")]


def _function(node: python.FunctionDef | python.AsyncFunctionDef, source: Source) -> PluginFunction:
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults: list[python.expr | None] = [None] * (len(names) - len(arguments.defaults))
    positional = [
        _parameter(name, default) for name, default in zip(names, [*defaults, *arguments.defaults], strict=True)
    ]
    keyword = [
        _parameter(name, default) for name, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    doc = (python.get_docstring(node) or "").partition("\n")[0]
    start = source.text.find(node.name, source.line_starts[node.lineno - 1])
    span = Span(source.file, start, start + len(node.name))
    return PluginFunction(node.name, tuple(positional), tuple(keyword), _type(node.returns), doc, span)


def _parameter(argument: python.arg, default: python.expr | None) -> Parameter:
    choices = _literal(argument.annotation)
    kind = "enum" if choices else _type(argument.annotation)
    value: Any = REQUIRED
    if default is not None:
        try:
            value = python.literal_eval(default)
        except ValueError:
            value = OMITTED  # an expression of Python's: left to the function itself
        if value is None and not kind.endswith("?"):
            kind += "?"
    return Parameter(argument.arg, kind, value, choices=choices)


_TYPES = {"int": "int", "float": "float", "bool": "bool", "str": "string", "Path": "path"}
_LISTS = ("list", "List", "Sequence", "Iterable", "tuple")


def _type(annotation: python.expr | None) -> str:
    """The language's name of an annotated type; what it has no name for is `any`."""
    match annotation:
        case python.Name(id=name):
            return _TYPES.get(name, "list:any" if name in _LISTS else "any")
        case python.Constant(value=str(text)):
            try:
                return _type(python.parse(text, mode="eval").body)
            except SyntaxError:
                return "any"
        case python.Attribute(attr=name):
            return _TYPES.get(name, "any")
        case python.BinOp(left=left, op=python.BitOr(), right=python.Constant(value=None)):
            return _optional(_type(left))
        case python.BinOp(left=python.Constant(value=None), op=python.BitOr(), right=right):
            return _optional(_type(right))
        case python.Subscript(value=owner, slice=item):
            name = getattr(owner, "id", getattr(owner, "attr", ""))
            if name == "Optional":
                return _optional(_type(item))
            if name in _LISTS:
                return "list:" + _type(item.elts[0] if isinstance(item, python.Tuple) else item)
    return "any"


def _optional(kind: str) -> str:
    return kind if kind.endswith("?") or kind == "any" else f"{kind}?"


def _literal(annotation: python.expr | None) -> tuple[str, ...]:
    """The strings of `Literal["a", "b"]`, or nothing."""
    if not isinstance(annotation, python.Subscript):
        return ()
    if getattr(annotation.value, "id", getattr(annotation.value, "attr", "")) != "Literal":
        return ()
    items = annotation.slice.elts if isinstance(annotation.slice, python.Tuple) else [annotation.slice]
    values = [item.value for item in items if isinstance(item, python.Constant)]
    return tuple(value for value in values if isinstance(value, str))


@functools.lru_cache(maxsize=256)
def installed_function(name: str) -> PluginFunction | None:
    """The function that an installed package offers under this name, read and not imported."""
    from importlib import metadata

    for entry in metadata.entry_points(group=GROUP, name=name):
        module, _, attribute = entry.value.partition(":")
        path = _module_file(module)
        if path is None:
            continue
        source = Source(path, Path(path).read_text(encoding="utf-8"))
        for function in read_plugin(source, Report()):
            if function.name == attribute:
                return PluginFunction(
                    name, function.positional, function.keyword, function.returns, function.doc, function.span
                )
    return None


def _module_file(module: str) -> str | None:
    """Where a module lies, found without importing it or its parents."""
    from importlib.util import find_spec

    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return spec.origin
    for folder in spec.submodule_search_locations or ():
        stem = os.path.join(folder, *rest)
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if os.path.isfile(path):
                return path
    return None

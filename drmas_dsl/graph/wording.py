"""Expressions and nodes of the graph in the language's own syntax, for findings and drawings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drmas_dsl.graph.settings import Call, Expression
from drmas_dsl.semantics.functions import FUNCTIONS, REQUIRED, Signature

_BINDING = {"or": 1, "and": 2, "not": 3, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "neg": 7}
_COMPARISON = 4
_ATOM = 8


def text_of(expression: Expression) -> str:
    """The expression as it would be written: `Verifier.verdict == "approve"`."""
    return _text(expression)[0]


def value_text(value: Any) -> str:
    """A constant as it would be written: `none`, `"a"`, `[1, 2]`; a call of a setting as `grpo(clip = 0.2)`."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
        case float():
            return re.sub(r"e([+-])0*(?=\d)", lambda sign: "e" + sign[1].strip("+"), repr(value))
        case {"path": path}:
            return value_text(path)
        case {"function": function, "args": args}:
            return call_text(Call(function, args))
        case Call():
            return call_text(value)
        case list() | tuple():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case Mapping():
            return "{" + ", ".join(f"{key} = {value_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def call_text(call: Call) -> str:
    """A setting's call with the arguments that differ from their defaults."""
    signature = _signature(call.function, tuple(kind for kind, name in FUNCTIONS if name == call.function))
    return _called(call.function, call.args, signature, value_text)


def node_text(data: Mapping[str, Any]) -> str:
    """What a node does, as it would be written; empty for a branch, a fork or a join."""
    match data:
        case {"kind": "call", "agent": agent}:
            return str(agent)
        case {"kind": "tool", "tool": tool, "args": args, "bind": bind}:
            return f"{bind} = {tool}({', '.join(text_of(value) for value in args.values())})"
        case {"kind": "assign", "bind": bind, "value": value}:
            return f"{bind} = {text_of(value)}"
        case {"kind": "return", "value": value}:
            return f"return {text_of(value)}"
        case {"kind": "loop", "max": count}:
            return f"loop {count}"
        case {"kind": "fork", "copies": int(count)}:
            return f"parallel {count}"
    return ""


def _text(expression: Expression) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    match expression:
        case {"kind": "const", "value": value}:
            return value_text(value), _ATOM
        case {"kind": "output", "agent": agent, "name": name}:
            return f"{agent}.{name}", _ATOM
        case {"kind": "text", "agent": agent}:
            return f"{agent}.text", _ATOM
        case {"kind": "variable", "name": name}:
            return str(name), _ATOM
        case {"kind": "task" | "loop" as owner, "name": name}:
            return f"{owner}.{name}", _ATOM
        case {"kind": "calls", "agent": agent}:
            return f"calls({agent})", _ATOM
        case {"kind": "list", "items": items}:
            return "[" + ", ".join(text_of(item) for item in items) + "]", _ATOM
        case {"kind": "call", "function": function, "args": args}:
            return _called(function, args, _signature(function, ("reducer", "reward")), text_of), _ATOM
        case {"kind": "op", "op": op, "args": args}:
            return _operation(op, args)
    return str(expression["kind"]), _ATOM


def _operation(op: str, args: list[Expression]) -> tuple[str, int]:
    level = _BINDING.get(op, _COMPARISON)
    if len(args) == 1:
        sign = "not " if op == "not" else "-"
        return sign + _inside(args[0], level), level
    left = _inside(args[0], level + (level == _COMPARISON))
    return f"{left} {op} {_inside(args[1], level + 1)}", level


def _inside(expression: Expression, level: int) -> str:
    text, binds = _text(expression)
    return text if binds >= level else f"({text})"


def _signature(function: str, kinds: tuple[str, ...]) -> Signature | None:
    return next((FUNCTIONS[kind, function] for kind in kinds if (kind, function) in FUNCTIONS), None)


def _called(function: str, args: Mapping[str, Any], signature: Signature | None, show: Any) -> str:
    """A call: mandatory arguments by position, the others by name where they differ from the default."""
    parameters = {p.name.lstrip("*"): p for p in signature.parameters} if signature else {}
    shown = []
    for name, value in args.items():
        parameter = parameters.get(name)
        plain = value["value"] if isinstance(value, Mapping) and value.get("kind") == "const" else value
        if parameter is None:
            shown.append(f"{name} = {show(value)}")
        elif parameter.name.startswith("*"):
            shown += [show(item) for item in (plain["items"] if isinstance(plain, Mapping) else plain)]
        elif parameter.default is REQUIRED:
            shown.append(show(value))
        elif plain != parameter.default:
            shown.append(f"{name} = {show(value)}")
    return f"{function}({', '.join(shown)})" if shown else function

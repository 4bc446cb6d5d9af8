"""Typing of expressions: names resolved, types checked, constants folded, and the graph's JSON made in one walk.

`typed` is for what the runtime evaluates (flow, rewards), `constant` for what must be known at compile time. The names
that exist are the caller's `Scope`; a call's arguments are matched in `arguments`. Settings whose values are calls
(`engine = vllm(…)`) are bound in `calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.expressions import const
from drmas_dsl.graph.settings import Expression
from drmas_dsl.semantics.arguments import bind, check_argument, parameters_by_name
from drmas_dsl.semantics.folding import OPERATIONS, UNKNOWN, constant_value
from drmas_dsl.semantics.functions import FUNCTIONS, OMITTED, Signature
from drmas_dsl.semantics.plugins import installed_function
from drmas_dsl.semantics.suggest import listed, nearest, unknown
from drmas_dsl.semantics.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    STRING,
    Type,
    alike,
    declared,
    is_number,
    join,
    list_of,
    type_of,
)
from drmas_dsl.semantics.walk import names_in
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression's type, and its form in the graph."""

    type: Type
    expression: Expression

    @property
    def is_constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.type.kind != "any" and constant_value(self.expression) is not UNKNOWN

    @property
    def value(self) -> Any:
        """The value of a constant."""
        return constant_value(self.expression)


# What an expression with an error in it is worth: it goes with everything, so that one mistake is one finding.
WRONG = Typed(ANY, const(None))
# The value of a param that is wrong (reported where it is declared or overridden).
FAILED: Any = type("Failed", (), {"__repr__": lambda self: "failed"})()

LOOP_FIELDS = {"index": INT, "last": BOOL, "max": INT}


def expression_functions() -> dict[str, Signature]:
    """The built-in functions that may stand in an expression, by name: reducers and rewards."""
    return {name: f for (kind, name), f in FUNCTIONS.items() if kind in ("reducer", "reward")}


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that exist for an expression.

    `agents`: outputs with their types; agents in `lists` stand behind a `parallel N`, and their outputs and texts are
    lists. `variables`: those of the flow. `params`: folded to constants. `columns`: the columns of each dataset that is
    known, by its file; none known means that every column is accepted. `loop`: inside a loop. `reward`: `result` and
    `calls(Agent)` exist. `extra`: further names with what they stand for. `others`: declared names that are no
    values, with what they are ("a model").
    """

    agents: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    variables: Mapping[str, Type] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    functions: Mapping[str, Signature] = field(default_factory=expression_functions)
    lists: frozenset[str] = frozenset()
    loop: bool = False
    task: bool = True
    reward: bool = False
    extra: Mapping[str, Typed] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)


def constant_scope(params: Mapping[str, Any], others: Mapping[str, str] | None = None) -> Scope:
    """The scope of what must be known at compile time: params and arithmetic alone."""
    return Scope(params=params, functions={}, task=False, others=others or {})


def constant(expr: ast.Expr, params: Mapping[str, Any], report: Report) -> Any | None:
    """The value of a compile-time constant, or None where it has none (reported) or is `none`."""
    found = typed_constant(expr, params, report)
    return None if found is None else found.value


def typed_constant(
    expr: ast.Expr, params: Mapping[str, Any], report: Report, others: Mapping[str, str] | None = None
) -> Typed | None:
    """Like `constant`, with the type; None is an error that was reported."""
    before = len(report.diagnostics)
    found = typed(expr, constant_scope(params, others), report)
    if found.is_constant:
        return found
    failed = any(params.get(name) is FAILED for name in names_in(expr))
    if len(report.diagnostics) == before and not failed and found is not WRONG:
        report.add("E0307", "this is not known at compile time", expr.span, help=Help("write a number or a param"))
    return None


def condition(expr: ast.Expr, scope: Scope, report: Report) -> Typed:
    """An expression that must be true or false."""
    found = typed(expr, scope, report)
    _want_bool(found, expr.span, "a condition", report)
    return found


def typed(expr: ast.Expr, scope: Scope, report: Report) -> Typed:
    """The type and graph form of an expression; mistakes are reported and give `WRONG`."""
    match expr:
        case ast.Literal(value=value) | ast.Text(value=value):
            return Typed(type_of(value), const(value))
        case ast.Name():
            return _name(expr, scope, report)
        case ast.Attribute():
            return _attribute(expr, scope, report)
        case ast.Call():
            return _call(expr, scope, report)
        case ast.ListExpr(items=items):
            found = [typed(item, scope, report) for item in items]
            item_type = join([item.type for item in found]) if found else ANY
            return Typed(list_of(item_type), {"kind": "list", "items": [item.expression for item in found]})
        case ast.Unary():
            return _unary(expr, scope, report)
        case ast.Binary():
            return _binary(expr, scope, report)


# Names


def _name(expr: ast.Name, scope: Scope, report: Report) -> Typed:
    name = expr.name
    if name in scope.extra:
        return scope.extra[name]
    if name in scope.params:
        if scope.params[name] is FAILED:
            return WRONG
        return Typed(type_of(scope.params[name]), const(scope.params[name]))
    if name in scope.variables:
        return Typed(scope.variables[name], {"kind": "variable", "name": name})
    if name in scope.agents:
        fields = [f"{name}.{output}" for output in (*scope.agents[name], "text")]
        report.add(
            "E0211",
            f"`{name}` is an agent, not a value",
            expr.span,
            help=Help(f"read one of {listed(fields)}", (Edit(expr.span, fields[0]),)),
        )
        return WRONG
    if name == "task" and scope.task:
        report.add("E0211", "`task` is the whole question", expr.span, help=Help("read a column: `task.question`"))
        return WRONG
    if name == "loop":
        return _wrong_loop(expr.span, scope, report)
    if name in scope.others:
        report.add("E0211", f"`{name}` is {scope.others[name]}, not a value", expr.span)
        return WRONG
    if name in scope.functions:
        return _call(ast.Call(ast.Ident(name, expr.span), (), expr.span), scope, report)
    known = [*scope.variables, *scope.params, *scope.extra, *scope.agents]
    unknown(report, "E0201", f"there is no `{name}` here", name, expr.span, known)
    return WRONG


def _wrong_loop(span: Span, scope: Scope, report: Report) -> Typed:
    if scope.loop:
        report.add("E0211", "`loop` is not a value", span, help=Help("read `loop.index`, `loop.last` or `loop.max`"))
    else:
        report.add("E0201", "`loop` exists inside a loop of the flow only", span)
    return WRONG


def _attribute(expr: ast.Attribute, scope: Scope, report: Report) -> Typed:
    owner, name = expr.value, expr.name.name
    if isinstance(owner, ast.Name):
        if owner.name in scope.agents:
            return _output(owner.name, expr.name, scope, report)
        if owner.name == "task" and scope.task:
            return _column(expr.name, scope, report)
        if owner.name == "loop":
            if not scope.loop:
                return _wrong_loop(owner.span, scope, report)
            if name in LOOP_FIELDS:
                return Typed(LOOP_FIELDS[name], {"kind": "loop", "name": name})
            unknown(report, "E0208", f"`loop` has no `{name}`", name, expr.name.span, LOOP_FIELDS)
            return WRONG
        if owner.name not in (*scope.variables, *scope.params, *scope.extra, *scope.others):
            known = [*scope.agents, *(["task"] if scope.task else []), *(["loop"] if scope.loop else [])]
            unknown(report, "E0201", f"there is no `{owner.name}` here", owner.name, owner.span, known)
            return WRONG
        if owner.name in scope.others:
            report.add("E0211", f"`{owner.name}` is {scope.others[owner.name]}, not a value", owner.span)
            return WRONG
    before = len(report.diagnostics)
    found = typed(owner, scope, report)
    if len(report.diagnostics) == before:
        report.add("E0208", f"a value of type {found.type} has no fields", expr.name.span)
    return WRONG


def _output(agent: str, name: ast.Ident, scope: Scope, report: Report) -> Typed:
    outputs = scope.agents[agent]
    if name.name in outputs:
        found = Typed(outputs[name.name], {"kind": "output", "agent": agent, "name": name.name})
    elif name.name == "text":
        found = Typed(STRING, {"kind": "text", "agent": agent})
    else:
        unknown(
            report, "E0208", f"agent `{agent}` has no output `{name.name}`", name.name, name.span, [*outputs, "text"]
        )
        return WRONG
    return Typed(list_of(found.type), found.expression) if agent in scope.lists else found


def _column(name: ast.Ident, scope: Scope, report: Report) -> Typed:
    lacking_column(name.name, name.span, scope.columns, report)
    return Typed(ANY, {"kind": "task", "name": name.name})


def lacking_column(name: str, span: Span, columns: Mapping[str, frozenset[str]], report: Report) -> None:
    """Report a column that a dataset lacks: once, for the first dataset, naming the others."""
    lacking = [file for file, names in columns.items() if name not in names]
    if lacking:
        known = sorted(columns[lacking[0]])
        notes = [f"so does {listed(lacking[1:])}"] if len(lacking) > 1 else []
        unknown(report, "E0703", f"the dataset `{lacking[0]}` lacks a column `{name}`", name, span, known, notes=notes)


# Operators


def _want_bool(found: Typed, span: Span, what: str, report: Report) -> None:
    if found.type.kind not in ("bool", "any"):
        report.add(
            "E0301",
            f"{what} is true or false, this is {_a(found.type)}",
            span,
            help=Help("compare it with `==`, `!=` or `<`"),
        )


def _a(type: Type) -> str:
    text = str(type)
    if type.choices or type.kind in ("none", "any"):
        return text
    return f"an {text}" if text[0] in "aio" else f"a {text}"


def _unary(expr: ast.Unary, scope: Scope, report: Report) -> Typed:
    operand = typed(expr.operand, scope, report)
    if expr.op == "not":
        _want_bool(operand, expr.operand.span, "what `not` negates", report)
        return _folded(Typed(BOOL, {"kind": "op", "op": "not", "args": [operand.expression]}), expr.span, report)
    if not is_number(operand.type):
        report.add("E0301", f"`-` needs a number, this is {_a(operand.type)}", expr.operand.span)
        return WRONG
    kind = FLOAT if operand.type == ANY else operand.type
    return _folded(Typed(kind, {"kind": "op", "op": "neg", "args": [operand.expression]}), expr.span, report)


def _binary(expr: ast.Binary, scope: Scope, report: Report) -> Typed:
    left, right = typed(expr.left, scope, report), typed(expr.right, scope, report)
    op = expr.op
    if op == "=":  # written for `==`, which the parser has reported
        return WRONG
    result = BOOL
    if op in ("and", "or"):
        _want_bool(left, expr.left.span, f"what `{op}` joins", report)
        _want_bool(right, expr.right.span, f"what `{op}` joins", report)
    elif op in ("+", "-", "*", "/", "%"):
        if not (_number(left, expr.left, op, report) and _number(right, expr.right, op, report)):
            return WRONG
        result = INT if op != "/" and left.type == right.type == INT else FLOAT
    else:
        _comparison(expr, left, right, report)
    return _folded(
        Typed(result, {"kind": "op", "op": op, "args": [left.expression, right.expression]}), expr.span, report
    )


def _number(operand: Typed, expr: ast.Expr, op: str, report: Report) -> bool:
    if is_number(operand.type):
        return True
    help = None
    if operand.type.kind == "string" and op == "+":
        help = Help('join texts with `concat([a, b], separator = "")`')
    elif operand.type.kind == "bool":
        help = Help("`equal(a, b)` gives 1 or 0")
    report.add("E0301", f"`{op}` needs numbers, this is {_a(operand.type)}", expr.span, help=help)
    return False


def _comparison(expr: ast.Binary, left: Typed, right: Typed, report: Report) -> None:
    """Report a comparison of unlike types, or one that a choice can never make true."""
    ordering = expr.op not in ("==", "!=")
    if not alike(left.type, right.type):
        help = None
        if "list" in (left.type.kind, right.type.kind):
            help = Help("reduce the list to one value: `vote(…)`, `first(…)` or `count(…)`")
        labels = [Label(expr.left.span, _a(left.type)), Label(expr.right.span, _a(right.type))]
        message = f"{_a(left.type)} is compared with {_a(right.type)}"
        report.add("E0305", message, expr.span, labels=labels, help=help)
    elif ordering and {left.type.kind, right.type.kind} & {"bool", "list"}:
        report.add("E0305", f"`{expr.op}` orders numbers and strings, not {left.type}", expr.span)
    elif left.type.choices and right.type.choices:
        if not set(left.type.choices) & set(right.type.choices):
            report.add("E0304", f"{left.type} is never {right.type}", expr.span)
    elif left.type.choices and isinstance(expr.right, ast.Text):
        _choice(expr.left, left.type, expr.right, ordering, report)
    elif right.type.choices and isinstance(expr.left, ast.Text):
        _choice(expr.right, right.type, expr.left, ordering, report)


def _choice(expr: ast.Expr, type: Type, text: ast.Text, ordering: bool, report: Report) -> None:
    if ordering or text.value in type.choices:
        return
    match = nearest(text.value, type.choices)
    edits = (Edit(text.span, f'"{match}"'),) if match else ()
    help = Help(f'did you mean "{match}"?' if match else f"it is {type}, or none", edits)
    report.add(
        "E0304",
        f'{_shown(expr)} is never "{text.value}"',
        text.span,
        notes=("the choices are " + listed(type.choices, quote='"'),),
        help=help,
    )


def _shown(expr: ast.Expr) -> str:
    """A name for a message."""
    match expr:
        case ast.Name(name=name):
            return f"`{name}`"
        case ast.Attribute(value=ast.Name(name=owner), name=name):
            return f"`{owner}.{name.name}`"
    return "this"


# Folding


def _folded(found: Typed, span: Span, report: Report) -> Typed:
    """The same, as a constant where every operand is one."""
    op = found.expression["op"]
    values = [constant_value(argument) for argument in found.expression["args"]]
    if any(value is UNKNOWN for value in values):
        return found
    if None in values and op not in ("==", "!=", "not", "and", "or"):
        return Typed(found.type, found.expression)
    try:
        value = OPERATIONS[op](*values)
    except ZeroDivisionError:
        report.add("E0308", "division by zero", span)
        return WRONG
    except (OverflowError, TypeError):
        report.add("E0308", "this has no value", span)
        return WRONG
    return Typed(found.type, const(value))


# Calls


def _call(expr: ast.Call, scope: Scope, report: Report) -> Typed:
    name = expr.function.name
    if scope.reward and name == "calls":
        return _calls(expr, scope, report)
    signature = scope.functions.get(name) or _installed(name, scope)
    if signature is None:
        _unknown_function(expr.function, scope, report)
        return WRONG
    bound = bind(expr, signature, report)
    if bound is None:
        return WRONG
    return _applied(signature, bound, scope, report)


def _installed(name: str, scope: Scope) -> Signature | None:
    """The reward of that name that an installed package offers, looked for only where nothing here has the name."""
    if (
        not scope.functions
        or name in scope.others
        or name in scope.agents
        or any(name == other for _, other in FUNCTIONS)
    ):
        return None
    function = installed_function(name)
    return None if function is None else function.signature("reward")


def _unknown_function(function: ast.Ident, scope: Scope, report: Report) -> None:
    name = function.name
    if name in scope.others:
        kind = scope.others[name]
        help = Help(f"call it in a statement of its own: `x = {name}(…)`") if kind == "a tool" else None
        report.add("E0309", f"`{name}` is {kind}, not a function of expressions", function.span, help=help)
    elif name in scope.agents:
        report.add("E0309", f"`{name}` is an agent, not a function", function.span)
    elif not scope.functions:
        report.add("E0307", f"`{name}(…)` is not known at compile time", function.span)
    elif kinds := sorted(kind for kind, other in FUNCTIONS if other == name):
        report.add("E0309", f"`{name}` is a function of kind {listed(kinds)}; it has no place here", function.span)
    elif name == "calls":
        report.add("E0207", "`calls(…)` is known in `task` only", function.span)
    else:
        unknown(report, "E0207", f"there is no function `{name}`", name, function.span, scope.functions)


def _calls(expr: ast.Call, scope: Scope, report: Report) -> Typed:
    """`calls(Agent)`: how often it was called."""
    argument = expr.arguments[0] if len(expr.arguments) == 1 else None
    if argument is None or argument.name is not None or not isinstance(argument.value, ast.Name):
        report.add("E0306", "`calls` takes the name of one agent", expr.span, help=Help("write `calls(Agent)`"))
        return WRONG
    agent = argument.value
    if agent.name not in scope.agents:
        unknown(report, "E0201", f"there is no agent `{agent.name}`", agent.name, agent.span, scope.agents)
        return WRONG
    return Typed(INT, {"kind": "calls", "agent": agent.name})


def typed_arguments(
    signature: Signature, bound: Mapping[str, ast.Expr | tuple[ast.Expr, ...]], scope: Scope, report: Report
) -> dict[str, Typed]:
    """The bound arguments typed and checked, and the defaults, in the order of the parameters."""
    found: dict[str, Typed] = {}
    for name, parameter in parameters_by_name(signature).items():
        given = bound.get(name)
        if given is None and parameter.default is OMITTED:
            continue
        if given is None:
            found[name] = Typed(type_of(parameter.default), const(parameter.default))
        elif isinstance(given, tuple):
            items = [typed(item, scope, report) for item in given]
            expression: Expression = {"kind": "list", "items": [item.expression for item in items]}
            found[name] = Typed(list_of(join([item.type for item in items])), expression)
        else:
            found[name] = typed(given, scope, report)
            value = found[name].value if found[name].is_constant else None
            check_argument(signature, parameter, found[name].type, value, given.span, report)
    return found


def _applied(
    signature: Signature, bound: Mapping[str, ast.Expr | tuple[ast.Expr, ...]], scope: Scope, report: Report
) -> Typed:
    arguments = typed_arguments(signature, bound, scope, report)
    expression = {
        "kind": "call",
        "function": signature.name,
        "args": {name: argument.expression for name, argument in arguments.items()},
    }
    if signature.returns == "item":
        xs = arguments["xs"].type
        return Typed(xs.item or ANY if xs.kind == "list" else ANY, expression)
    return Typed(declared(signature.returns), expression)

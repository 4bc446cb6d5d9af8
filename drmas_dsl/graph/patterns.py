"""Patterns: `flow refine(worker, critic, n) { … }`, expanded where they are called.

An expansion is the pattern's body as ordinary statements: parameters replaced by the call's arguments, variables of
the body renamed so that they meet no others (`refine.1.x`). Nothing here makes nodes; `lowering` lowers what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from drmas_dsl.diagnostics.diagnostic import Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.arguments import bind
from drmas_dsl.semantics.expressions import Scope
from drmas_dsl.semantics.functions import Parameter, Signature
from drmas_dsl.semantics.suggest import unknown
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

RESERVED = ("task", "loop", "role", "history", "result")


def statements(body: tuple[ast.Stmt, ...]) -> Iterator[ast.Stmt]:
    """The statements and all statements inside them, in source order."""
    for statement in body:
        yield statement
        match statement:
            case ast.Chain(steps=steps):
                yield from steps
            case ast.If(branches=branches, orelse=orelse):
                for _, inside in branches:
                    yield from statements(inside)
                yield from statements(orelse or ())
            case ast.Loop(body=inside) | ast.Parallel(body=inside) | ast.Sequence(body=inside):
                yield from statements(inside)


def expressions(statement: ast.Stmt) -> Iterator[ast.Expr]:
    """The expressions that stand in the statement itself."""
    match statement:
        case ast.Do(target=ast.Call() as call):
            yield from (argument.value for argument in call.arguments)
        case ast.Assign(value=value) | ast.Return(value=value):
            yield value
        case ast.If(branches=branches):
            yield from (condition for condition, _ in branches)
        case ast.Loop(count=count):
            yield count
        case ast.Parallel(count=count) if count is not None:
            yield count


def inside(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The expression and all expressions inside it."""
    yield expr
    match expr:
        case ast.Attribute(value=value):
            yield from inside(value)
        case ast.Call(arguments=arguments):
            for argument in arguments:
                yield from inside(argument.value)
        case ast.ListExpr(items=items):
            for item in items:
                yield from inside(item)
        case ast.Unary(operand=operand):
            yield from inside(operand)
        case ast.Binary(left=left, right=right):
            yield from inside(left)
            yield from inside(right)


def variables_of(body: tuple[ast.Stmt, ...]) -> dict[str, ast.Ident]:
    """The variables that the statements bind, each with the place of its first binding."""
    found: dict[str, ast.Ident] = {}
    for statement in statements(body):
        if isinstance(statement, ast.Assign):
            found.setdefault(statement.name.name, statement.name)
    return found


def check_pattern(pattern: ast.FlowDecl, scope: Scope, places: Mapping[str, Span], report: Report) -> None:
    """Report what is wrong with a pattern whoever calls it: unknown names, shadowing, a `return`."""
    variables = variables_of(pattern.body)
    seen: dict[str, None] = {}
    for parameter in pattern.parameters:
        if parameter.name in seen:
            report.add("E0202", f"there are two parameters `{parameter.name}`", parameter.span)
        seen[parameter.name] = None
        check_fresh(parameter, "a parameter", scope, places, report)
    for variable in variables.values():
        if variable.name in seen:
            report.add("E0202", f"`{variable.name}` is a parameter of the pattern", variable.span)
    names = (*seen, *variables, *scope.agents, *scope.params, *scope.extra, *scope.others, *scope.functions)
    own = dict.fromkeys(names)
    for statement in statements(pattern.body):
        if isinstance(statement, ast.Return):
            help = Help("bind the value to a variable, or read the agent's output after the call")
            report.add("E0504", "a pattern has no `return`", statement.span, help=help)
        for expr in expressions(statement):
            _check_names(expr, own, pattern, report)


def _check_names(expr: ast.Expr, known: dict[str, None], pattern: ast.FlowDecl, report: Report) -> None:
    assert pattern.name is not None
    for part in inside(expr):
        if isinstance(part, ast.Name) and part.name not in known and part.name not in RESERVED:
            message = f"there is no `{part.name}` in the pattern `{pattern.name.name}`"
            note = "a pattern sees its parameters, its own variables and declared names"
            unknown(report, "E0201", message, part.name, part.span, known, notes=(note,))


def check_fresh(name: ast.Ident, what: str, scope: Scope, places: Mapping[str, Span], report: Report) -> None:
    """Report a variable or parameter with a name that means something else."""
    if name.name in RESERVED:
        report.add("E0212", f"`{name.name}` has a meaning of its own and cannot be {what}", name.span)
    elif name.name in scope.agents or name.name in scope.params or name.name in scope.others:
        kind = "an agent" if name.name in scope.agents else scope.others.get(name.name, "a param")
        labels = [Label(places[name.name], "declared here")] if name.name in places else []
        help = Help("choose another name")
        report.add("E0202", f"`{name.name}` is {kind}, it cannot be {what} too", name.span, labels=labels, help=help)


@dataclass(frozen=True, slots=True)
class Expansion:
    """What stands for the names of one expanded pattern: arguments for parameters, new names for variables."""

    arguments: Mapping[str, ast.Expr]
    variables: Mapping[str, str]


def expand(
    pattern: ast.FlowDecl, call: ast.Call, number: int, report: Report
) -> tuple[tuple[ast.Stmt, ...], tuple[ast.Stmt, ...]] | None:
    """Assignments that the caller makes first, so that arguments are read at the call, and the pattern's body; None where
    the arguments do not fit (reported)."""
    assert pattern.name is not None
    name = pattern.name.name
    signature = Signature(name, "pattern", tuple(Parameter(p.name, "any") for p in pattern.parameters), "none", "")
    bound = bind(call, signature, report)
    if bound is None:
        return None
    fresh = {variable: f"{name}.{number}.{variable}" for variable in variables_of(pattern.body)}
    arguments: dict[str, ast.Expr] = {}
    before: list[ast.Stmt] = []
    for parameter, value in bound.items():
        assert not isinstance(value, tuple)
        arguments[parameter] = value
        if _may_change(value):
            held = ast.Ident(f"{name}.{number}.{parameter}", value.span)
            before.append(ast.Assign(held, value, value.span))
            arguments[parameter] = ast.Name(held.name, held.span)
    body = _body(pattern.body, Expansion(arguments, fresh), report)
    return tuple(before), tuple(statement for statement in body if not isinstance(statement, ast.Return))


def _may_change(argument: ast.Expr) -> bool:
    """Whether the value depends on when it is read, so that it has to be read at the call."""
    reads = [part.value for part in inside(argument) if isinstance(part, ast.Attribute)]
    return any(not isinstance(owner, ast.Name) or owner.name != "task" for owner in reads)


def _body(body: tuple[ast.Stmt, ...], to: Expansion, report: Report) -> tuple[ast.Stmt, ...]:
    return tuple(new for statement in body if (new := _statement(statement, to, report)) is not None)


def _statement(statement: ast.Stmt, to: Expansion, report: Report) -> ast.Stmt | None:
    match statement:
        case ast.Do():
            return _do(statement, to, report)
        case ast.Chain(steps=steps):
            found = [_do(step, to, report) for step in steps]
            return replace(statement, steps=tuple(step for step in found if step is not None))
        case ast.Assign(name=name, value=value):
            fresh = replace(name, name=to.variables[name.name])
            return replace(statement, name=fresh, value=substitute(value, to))
        case ast.If(branches=branches, orelse=orelse):
            pairs = tuple((substitute(condition, to), _body(inside, to, report)) for condition, inside in branches)
            return replace(statement, branches=pairs, orelse=None if orelse is None else _body(orelse, to, report))
        case ast.Loop(count=count, body=inside):
            return replace(statement, count=substitute(count, to), body=_body(inside, to, report))
        case ast.Parallel(count=count, body=inside):
            times = None if count is None else substitute(count, to)
            return replace(statement, count=times, body=_body(inside, to, report))
        case ast.Sequence(body=inside):
            return replace(statement, body=_body(inside, to, report))
        case ast.Return(value=value):
            return replace(statement, value=substitute(value, to))
    return statement


def _do(step: ast.Do, to: Expansion, report: Report) -> ast.Do | None:
    match step.target:
        case ast.Name(name=name) if name in to.arguments:
            argument = to.arguments[name]
            if isinstance(argument, ast.Name):
                return replace(step, target=replace(argument, span=step.target.span))
            labels = (Label(step.span, f"`{name}` is called here"),)
            report.add("E0301", f"`{name}` has to be an agent, this is a value", argument.span, labels=labels)
            return None
        case ast.Call() as call:
            return replace(step, target=_call(call, to))
    return step


def _call(call: ast.Call, to: Expansion) -> ast.Call:
    arguments = tuple(replace(argument, value=substitute(argument.value, to)) for argument in call.arguments)
    return replace(call, arguments=arguments)


def substitute(expr: ast.Expr, to: Expansion) -> ast.Expr:
    """The expression with parameters and variables replaced."""
    again: Callable[[ast.Expr], ast.Expr] = lambda part: substitute(part, to)  # noqa: E731
    match expr:
        case ast.Name(name=name) if name in to.arguments:
            return to.arguments[name]
        case ast.Name(name=name) if name in to.variables:
            return replace(expr, name=to.variables[name])
        case ast.Attribute(value=ast.Name(name=name, span=span)) if isinstance(to.arguments.get(name), ast.Name):
            return replace(expr, value=replace(to.arguments[name], span=span))
        case ast.Attribute(value=value):
            return replace(expr, value=again(value))
        case ast.Call():
            return _call(expr, to)
        case ast.ListExpr(items=items):
            return replace(expr, items=tuple(again(item) for item in items))
        case ast.Unary(operand=operand):
            return replace(expr, operand=again(operand))
        case ast.Binary(left=left, right=right):
            return replace(expr, left=again(left), right=again(right))
    return expr

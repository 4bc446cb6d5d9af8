"""Walks over expressions that several checks need."""

from __future__ import annotations

from collections.abc import Iterator

from drmas_dsl.syntax import ast


def parts(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The expression and all expressions inside it, outermost first."""
    yield expr
    match expr:
        case ast.Attribute(value=value) | ast.Unary(operand=value):
            yield from parts(value)
        case ast.Binary(left=left, right=right):
            yield from parts(left)
            yield from parts(right)
        case ast.ListExpr(items=items):
            for item in items:
                yield from parts(item)
        case ast.Call(arguments=arguments):
            for argument in arguments:
                yield from parts(argument.value)


def names_in(expr: ast.Expr | None) -> set[str]:
    """All names that an expression uses as values or functions."""
    if expr is None:
        return set()
    names = {part.name for part in parts(expr) if isinstance(part, ast.Name)}
    return names | {part.function.name for part in parts(expr) if isinstance(part, ast.Call)}

"""Text to tree: the LALR(1) automaton of the grammar, with recovery.

`parse` always returns a tree, of what could be read, and findings for the rest. The automaton is Lark's (`table.py`), the loop is our
own, since recovery works on the stack itself (`recovery.py`). No name, type or file is looked up here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.errors import UserError
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.builder import Builder
from drmas_dsl.syntax.lexer import Comment, lex
from drmas_dsl.syntax.recovery import Recovery, Stack
from drmas_dsl.syntax.source import Source, Span
from drmas_dsl.syntax.structure import Balanced, balance
from drmas_dsl.syntax.table import Table, load


def parse(source: Source) -> tuple[ast.File, list[Diagnostic]]:
    """The tree of a file and what is wrong with its syntax; the tree holds the declarations that could be read."""
    file, diagnostics, _ = parse_with_comments(source)
    return file, diagnostics


def parse_with_comments(source: Source) -> tuple[ast.File, list[Diagnostic], list[Comment]]:
    """As `parse`, with the comments in order."""
    tree, diagnostics, comments = _parse(source, "file")
    assert isinstance(tree, ast.File)
    return tree, diagnostics, comments


def parse_expression(source: Source) -> tuple[ast.Expr | None, list[Diagnostic]]:
    """The expression that a whole source is (the value of `--set`), or None and what is wrong with it."""
    tree, diagnostics, _ = _parse(source, "expression")
    return (None if diagnostics else tree), diagnostics


def read_source(path: str) -> tuple[Source, list[Diagnostic]]:
    """A file as text, line ends normalised; bytes that are not UTF-8 are reported and replaced.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise UserError(f"cannot read `{path}`: {getattr(error, 'strerror', None) or error}") from error
    report = Report()
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    source = Source(path, text)
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        place = Span(path, len(before), len(before) + 1)
        report.add("E0106", f"byte 0x{data[error.start]:02x} is not UTF-8; a `.mas` file is UTF-8 text", place)
    return source, report.diagnostics


def _parse(source: Source, start: str) -> tuple[Any, list[Diagnostic], list[Comment]]:
    report = Report()
    tokens, comments = lex(source, report)
    balanced = balance(source, tokens, report)
    tree = _run(load(), balanced, start, source, report)
    report.diagnostics.sort(key=lambda diagnostic: diagnostic.span.start)
    return tree, report.diagnostics, comments


def _run(table: Table, balanced: Balanced, start: str, source: Source, report: Report) -> Any:
    """The automaton's loop: shift, reduce, and ask `Recovery` where neither is possible."""
    file, tokens, states, rules = source.file, balanced.tokens, table.states, table.rules
    builder = Builder(source, report)
    build = [None if single else builder.method(name) for _, _, name, single in rules]
    stack = Stack([table.start[start]], [], [], [])
    recovery = Recovery(table, balanced, start, source, report)
    path, values, starts, ends = stack.states, stack.values, stack.starts, stack.ends
    end_state = table.end[start]
    i = 0
    while True:
        token = tokens[i]
        action = states[path[-1]].get(token.type)
        if action is None:
            resumed = recovery.recover(stack, i)
            if resumed is None:
                return None
            i = resumed
            continue
        if action >= 0:
            path.append(action)
            values.append(token)
            starts.append(token.start)
            ends.append(token.end)
            i += 1
            continue
        name, length, _, _ = rules[-1 - action]
        method = build[-1 - action]
        if length:
            first, last = starts[-length], ends[-1]
            children = values[-length:]
            del path[-length:], values[-length:], starts[-length:], ends[-length:]
        else:
            first = last = ends[-1] if ends else 0
            children = []
        values.append(children[0] if method is None else method(children, Span(file, first, last)))
        path.append(states[path[-1]][name])
        starts.append(first)
        ends.append(last)
        if path[-1] == end_state and token.type == "$END":
            return values[-1]

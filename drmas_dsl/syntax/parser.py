"""Text to tree: the LALR(1) automaton of the grammar, with recovery.

`parse` always returns a tree, of what could be read, and findings for the rest. The automaton is Lark's (`table.py`), the loop is our
own, since recovery works on the stack itself (`recovery.py`). No name, type or file is looked up here.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.errors import UserError
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.automaton import Automaton
from drmas_dsl.syntax.builder import Builder
from drmas_dsl.syntax.lexer import END, Comment, lex
from drmas_dsl.syntax.recovery import MAX_ERRORS, Recovery
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
    return decode(path, read_bytes(path))


def read_bytes(path: str) -> bytes:
    """What a file holds.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise UserError(f"cannot read `{path}`: {getattr(error, 'strerror', None) or error}") from error


def decode(file: str, data: bytes) -> tuple[Source, list[Diagnostic]]:
    """The bytes of a file as text, line ends normalised; bytes that are not UTF-8 are reported and replaced."""
    report = Report()
    source = Source(file, data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n"))
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        skipped = 3 if data.startswith(BOM_UTF8) else 0  # which the codec leaves out of its count
        before = data[: error.start + skipped].decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        message = f"byte 0x{error.object[error.start]:02x} is not UTF-8; a `.mas` file is UTF-8 text"
        report.add("E0106", message, Span(file, len(before), len(before) + 1))
    return source, report.diagnostics


def _parse(source: Source, start: str) -> tuple[Any, list[Diagnostic], list[Comment]]:
    report = Report()
    tokens, comments = lex(source, report)
    balanced = balance(source, tokens, report)
    tree = _run(load(), balanced, start, source, report)
    if isinstance(tree, ast.File) and report.diagnostics:
        torn = {finding.span.start for finding in report.diagnostics if finding.code == "E0103"}
        lost = {*balanced.lost, *((token.start, token.end) for token in tokens if token.start in torn)}
        tree = replace(tree, lost=tuple(Span(source.file, begin, end) for begin, end in sorted(lost)))
    return tree, _first(source, report.diagnostics), comments


def _first(source: Source, findings: list[Diagnostic]) -> list[Diagnostic]:
    """The findings in the order of the text: of a line whose syntax is broken only the first, since the others mostly follow from
    it, and in all no more than anybody reads."""
    findings.sort(key=lambda finding: (finding.span.start, finding.code != "E0103"))
    kept: list[Diagnostic] = []
    broken = 0  # the last line with a finding of that kind
    for finding in findings:
        line = source.position(finding.span.start)[0]
        if finding.code in ("E0101", "E0102", "E0103"):
            if line == broken:
                continue
            broken = line
        kept.append(finding)
    if len(kept) > MAX_ERRORS:
        note = f"{len(kept) - MAX_ERRORS} more findings of this kind are not shown"
        last = kept[MAX_ERRORS - 1]
        kept[MAX_ERRORS - 1 :] = [replace(last, notes=(*last.notes, note))]
    return kept


def _run(table: Table, balanced: Balanced, start: str, source: Source, report: Report) -> Any:
    """The automaton's loop: shift, reduce, and ask `Recovery` where neither is possible."""
    automaton = Automaton(table, start, Builder(source, report))
    recovery = Recovery(automaton, balanced, source, report)
    tokens, states, rules, build = balanced.tokens, table.states, table.rules, automaton.build
    path, values, starts = automaton.states, automaton.values, automaton.starts
    chains: dict[tuple[int, int, str], int] = {}  # where a chain of rules with only children ends
    i = 0
    while True:
        token = tokens[i]
        kind = token.type
        action = states[path[-1]].get(kind)
        if action is None:
            resumed = recovery.recover(i)
            if resumed is None:
                return None
            i = resumed
        elif action >= 0:
            path.append(action)
            values.append(token)
            starts.append(token.start)
            automaton.last = token.end
            i += 1
        elif build[-1 - action] is None:  # an only child stands for the rule, and often for a chain of them
            key = (path[-2], action, kind)
            state = chains.get(key)
            if state is None:
                state = states[key[0]][rules[-1 - action][0]]
                while (action := states[state].get(kind, 0)) < 0 and build[-1 - action] is None:
                    state = states[key[0]][rules[-1 - action][0]]
                chains[key] = state
            path[-1] = state
        else:
            automaton.reduce(action)
        if kind == END and path[-1] == automaton.end:
            return values[-1]

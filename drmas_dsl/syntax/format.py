"""The one style of `.mas` files: two blanks of indentation, one setting or statement per line, comments where they were.

Kept are comments, single blank lines, strings and numbers as written, and whether a block stood on one line or a call on
several. The formatter proves itself: nothing is returned that reads as another tree or has lost a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.layout import layout
from drmas_dsl.syntax.lexer import Comment, lex
from drmas_dsl.syntax.parser import parse_with_comments
from drmas_dsl.syntax.source import Source


def format_source(source: Source) -> tuple[str | None, list[Diagnostic]]:
    """The formatted text, or None and what is wrong with the syntax.

    Raises:
        AssertionError: the result would not say the same; a bug, and nothing may be written then.
    """
    tree, diagnostics, comments = parse_with_comments(source)
    if diagnostics:
        return None, diagnostics
    tokens, _ = lex(source, Report())
    text = layout(source, tree, tokens, comments)
    again, found, kept = parse_with_comments(Source(source.file, text))
    if found or meaning(again) != meaning(tree) or _texts(kept, text) != _texts(comments, source.text):
        raise AssertionError(f"formatting `{source.file}` would change what it says")
    return text, []


def meaning(node: Any) -> Any:
    """A tree as nested tuples without its places, to compare what two texts say."""
    if isinstance(node, tuple):
        return tuple(meaning(item) for item in node)
    if is_dataclass(node) and not isinstance(node, type):
        skipped = ("span", "keyword", "offsets", "path" if isinstance(node, ast.File) else "")
        said = (meaning(getattr(node, field.name)) for field in fields(node) if field.name not in skipped)
        return type(node).__name__, *said
    return type(node).__name__, node


def _texts(comments: Sequence[Comment], text: str) -> list[str]:
    return [text[comment.start : comment.end].rstrip() for comment in comments]

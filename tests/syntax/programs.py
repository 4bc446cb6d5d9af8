"""Random programs: text that the grammar produces, with odd blanks, separators and comments between the tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from drmas_dsl.syntax.source import Span
from drmas_dsl.syntax.table import load

_WORDS = {
    "NAME": ["a", "Solver", "x1", "_y", "ünï", "agents", "nonesuch"],
    "NUMBER": ["0", "12", "1.50", "1e-6", "2E+3"],
    "TEXT": ['""', '"a"', '"# no comment"', r'"\"\\ \u{1F600}"', '"wide 漢字"'],
    "TEXT_BLOCK": [
        '"""x"""',
        '"""\n  a\n\n    b\n  """',
        '"""\n# none\n"""',
        '""" first\n   second"""',
        '"""\n\ttab\n \n\t"""',
    ],
}
_BLANKS = [" ", " ", " ", "\n", "\n\n\n", "\t", "  # comment\n", "\n    # own line\n", "\n\n#x\n\n\n"]
_DEPTH = 14  # of rules around one another
_LENGTH = 150  # words, after which everything is ended as soon as possible


def _written(terminal: str) -> list[str]:
    if terminal in _WORDS:
        return _WORDS[terminal]
    pattern = dict(load().terminals)[terminal]
    return [pattern.removesuffix(r"\b").replace("\\", "")]


def _rules() -> dict[str, list[tuple[str, ...]]]:
    """The grammar's productions, from the grammar file as Lark reads it."""
    from lark import Lark

    from drmas_dsl.syntax.table import GRAMMAR, STARTS

    lark = Lark(GRAMMAR.read_text(encoding="utf-8"), parser="lalr", lexer="basic", start=list(STARTS))
    rules: dict[str, list[tuple[str, ...]]] = {}
    for rule in lark.rules:
        rules.setdefault(rule.origin.name, []).append(tuple(symbol.name for symbol in rule.expansion))
    return rules


def _heights(rules: dict[str, list[tuple[str, ...]]]) -> dict[str, int]:
    """The least depth of a derivation of each rule."""
    heights: dict[str, int] = {}
    while len(heights) < len(rules):
        for name, options in rules.items():
            known = [
                max((heights[s] for s in option if s in rules), default=0)
                for option in options
                if all(s in heights or s not in rules for s in option)
            ]
            if known and name not in heights:
                heights[name] = 1 + min(known)
    return heights


RULES = _rules()
HEIGHTS = _heights(RULES)


def program(seed: int, start: str = "file") -> str:
    """The text of the random program with a number."""
    random = Random(seed)
    words: list[str] = []

    def height(option: tuple[str, ...]) -> int:
        return max((HEIGHTS[symbol] for symbol in option if symbol in RULES), default=0)

    def expand(symbol: str, depth: int) -> None:
        if symbol not in RULES:
            words.append(random.choice(_written(symbol)))
            return
        options = RULES[symbol]
        if depth <= 0 or len(words) > _LENGTH:
            low = min(height(option) for option in options)
            options = [option for option in options if height(option) == low]
        for part in random.choice(options):
            expand(part, depth - (not part.startswith("__")))

    expand(start, _DEPTH)
    # `if x == task {` is no condition that anybody writes; with a line end before `task` it reads as a declaration.
    text = [part for word in words for part in (" " if word in ("agent", "task") else random.choice(_BLANKS), word)]
    return "".join([*text, random.choice(_BLANKS)])


# A number has no simpler ones, so hypothesis is told to use them as they are.
programs = st.integers(0, 2**32).map(program)


def spans_of(node: Any) -> Iterator[tuple[Span, Span]]:
    """Pairs of a node's span and that of a node within."""
    if isinstance(node, tuple):
        for item in node:
            yield from spans_of(item)
    elif is_dataclass(node) and not isinstance(node, (type, Span)):
        for field in fields(node):
            for child in _nodes(getattr(node, field.name)):
                yield node.span, child.span  # type: ignore[attr-defined]
                yield from spans_of(child)


def _nodes(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)
    elif hasattr(value, "span"):
        yield value

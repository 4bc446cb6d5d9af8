"""Text to tokens, and comments apart.

The terminals are those of the grammar, tried in Lark's order; three patterns more catch what is no token at all (an unclosed
string, a character that the language does not know), so that lexing always reaches the end of the file. Which token may follow
which is not known here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from drmas_dsl.diagnostics.diagnostic import Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.source import Source, Span
from drmas_dsl.syntax.table import load

END = "$END"
BAD = "BAD"
KEYWORDS = frozenset(
    "SYSTEM USE PARAM MODEL ROLE AGENT TOOL FLOW TASK TRAIN EVAL RESOURCES OUTPUT REWARD POOL IF ELIF ELSE LOOP PARALLEL "
    "BREAK CONTINUE RETURN IN OR AND NOT TRUE FALSE NONE".split()
)
WORDS = KEYWORDS | {"NAME"}
SIGNS = {
    "EQUAL": "=", "EQ": "==", "NE": "!=", "LE": "<=", "LT": "<", "GE": ">=", "GT": ">", "PLUS": "+", "MINUS": "-", "STAR": "*",
    "SLASH": "/", "PERCENT": "%", "ARROW": "->", "RANGE": "..", "DOT": ".", "COMMA": ",", "SEMICOLON": ";", "COLON": ":",
    "LPAREN": "(", "RPAREN": ")", "LBRACKET": "[", "RBRACKET": "]", "LBRACE": "{", "RBRACE": "}",
}  # fmt: skip

# A line that can only begin a declaration, and `name = """`: signs that a text block should have ended before.
_DECLARATION_LINE = re.compile(
    r"^(?:(?:model|role|agent)\s+\w+\s*[{:]|(?:task|train|eval|resources|flow)\s*\{|flow\s+\w+\s*\("
    r"|param\s+\w+\s*:|tool\s+\w+\s*=|system\s+\w+\s*\"|use\s*\")",
    re.MULTILINE,
)
_OPENING = re.compile(r"[^\W\d]\w*[ \t]*=[ \t]*\Z")


class Token(NamedTuple):
    """A terminal at [start, end); `indent` is its column from 0 where it is the first on its line, else -1. A token that the
    parser adds has no width."""

    type: str
    start: int
    end: int
    indent: int


class Comment(NamedTuple):
    """A comment, from its `#` to the end of its line; `own_line` where nothing stands before it."""

    start: int
    end: int
    own_line: bool


@cache
def _scanner() -> tuple[re.Pattern[str], dict[str, str]]:
    """One pattern for all terminals, and the terminals that are a fixed text (keywords, signs) by that text.

    A keyword is a NAME by its letters and a sign has none, so both are looked up rather than tried one by one.
    """
    fixed: dict[str, str] = {}
    signs: list[str] = []
    patterns: list[tuple[str, str]] = []
    for name, pattern in load().terminals:
        if name in KEYWORDS:
            fixed[pattern.removesuffix(r"\b")] = name
        elif name in SIGNS:
            fixed[SIGNS[name]] = name
            signs.append(pattern)
        else:
            patterns.append((name, pattern))
    after_block = 1 + next(i for i, (name, _) in enumerate(patterns) if name == "TEXT_BLOCK")
    patterns.insert(after_block, ("UNCLOSED_BLOCK", r'"""[\s\S]*'))
    patterns += [("SIGN", "|".join(signs)), ("UNCLOSED_TEXT", r'"[^\n]*'), (BAD, r"[\s\S]")]
    patterns.sort(key=lambda item: item[0] not in ("SPACE", "NAME"))  # the commonest first; they begin like no other
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns)), fixed


def lex(source: Source, report: Report) -> tuple[list[Token], list[Comment]]:
    """The tokens of a source, closed by one of type `END`, and its comments, both in order.

    Unclosed strings are reported and stand among the tokens as strings; unknown characters stand there as `BAD`.
    """
    text = source.text
    tokens: list[Token] = []
    comments: list[Comment] = []
    append = tokens.append
    odd_quotes = text.count('"""') % 2 == 1
    indent = 0  # of the next token, -1 once the line has one
    position = 0
    scanner, fixed = _scanner()
    while position < len(text):
        for match in scanner.finditer(text, position):
            kind = match.lastgroup or BAD
            start, position = match.span()
            if kind == "SPACE":
                line_end = text.rfind("\n", start, position)
                if line_end >= 0:
                    indent = position - line_end - 1
                elif indent >= 0:
                    indent = position
                continue
            if kind == "NAME" or kind == "SIGN":  # noqa: PLR1714 (the hot path)
                kind = fixed.get(match.group(), kind)
            if start and tokens and tokens[-1].end == start and _glued(tokens[-1].type, kind):
                before = tokens.pop()
                append(Token(BAD, before.start, position, before.indent))
                continue
            if kind == "COMMENT":
                comments.append(Comment(start, position, indent >= 0))
                continue
            if kind == "UNCLOSED_TEXT":
                position = start + len(text[start:position].rstrip())
                _unclosed(report, source, start, '"', position)
                kind = "TEXT"
            elif odd_quotes and (
                kind == "UNCLOSED_BLOCK" or (kind == "TEXT_BLOCK" and _closes_late(text, start, position))
            ):
                odd_quotes = False
                following = _DECLARATION_LINE.search(text, start)
                position = following.start() if following else len(text)
                _unclosed(report, source, start, '"""', position)
                append(Token("TEXT_BLOCK", start, position, indent))
                indent = 0
                break  # the rest is read again from here
            append(Token(kind, start, position, indent))
            indent = -1
    append(Token(END, len(text), len(text), 0))
    return tokens, comments


def _glued(before: str, kind: str) -> bool:
    """Whether two adjoining tokens are one mistake: `12px`, `&&`."""
    return (kind == BAD and before == BAD) or (before == "NUMBER" and kind in WORDS)


def _closes_late(text: str, start: int, end: int) -> bool:
    """Whether the quotes that end a text block were meant to begin the next one."""
    line_start = text.rfind("\n", start, end - 3) + 1
    return line_start > start and bool(_OPENING.search(text, line_start, end - 3))


def _unclosed(report: Report, source: Source, start: int, quotes: str, end: int) -> None:
    what = "string" if quotes == '"' else "text block"
    notes = ('a string ends on its line; a text of several lines stands between two `"""`',) if quotes == '"' else ()
    report.add(
        "E0103",
        f"this {what} is never closed",
        Span(source.file, start, start + len(quotes) if len(quotes) > 1 else end),
        notes=notes,
        help=Help(f"close it with `{quotes}`"),
    )

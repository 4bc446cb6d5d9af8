"""Brackets before grammar: finds what is never closed, guesses from the indentation where it should have been, and closes it there.

The parser then reads on as if the bracket stood in the file, so that one forgotten `}` is one finding and the declarations
behind it are still read. Nesting without end is stopped here too; later stages may recurse into a tree. What a bracket is for is
not known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Set
from dataclasses import dataclass, field

from drmas_dsl.diagnostics.diagnostic import Edit, Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.lexer import END, Token
from drmas_dsl.syntax.source import Source, Span

CLOSER = {"LBRACE": "RBRACE", "LPAREN": "RPAREN", "LBRACKET": "RBRACKET"}
CLOSERS = frozenset(CLOSER.values())
_SIGN = {"LBRACE": "{", "LPAREN": "(", "LBRACKET": "[", "RBRACE": "}", "RPAREN": ")", "RBRACKET": "]"}
MAX_DEPTH = 100  # of brackets and operators around one another
MAX_GUESSES = 3  # of forgotten brackets in one declaration that are placed by indentation
_OPERATORS = frozenset("OR AND NOT PLUS MINUS STAR SLASH PERCENT DOT EQ NE LE LT GE GT".split())
_ENDS_EXPRESSION = frozenset(
    "EQUAL COMMA SEMICOLON ARROW LBRACE IF ELIF ELSE LOOP PARALLEL BREAK CONTINUE RETURN IN RANGE".split()
)

# How a declaration begins: its keyword, and what follows that.
_HEADS = {
    **dict.fromkeys(("MODEL", "ROLE", "AGENT"), ("LBRACE", "COLON")),
    **dict.fromkeys(("TASK", "TRAIN", "EVAL", "RESOURCES"), ("LBRACE",)),
    "FLOW": ("LBRACE", "LPAREN"),
    "SYSTEM": (),
    "USE": ("TEXT",),
    "PARAM": ("COLON",),
    "TOOL": ("EQUAL",),
}
_NAMED = frozenset(("MODEL", "ROLE", "AGENT", "PARAM", "TOOL", "SYSTEM", "FLOW"))
_AFTER_KEYWORD = frozenset(("NAME", "TEXT", "LBRACE", "COLON", "OUTPUT", "POOL"))


@dataclass
class Places:
    """Stretches [start, end) of the text, in order; those with the same end are one."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, start: int, end: int) -> None:
        """Add a stretch that ends no earlier than the last one."""
        if self.ends and self.ends[-1] == end:
            self.starts[-1] = min(self.starts[-1], start)
        else:
            self.starts.append(start)
            self.ends.append(end)

    def around(self, place: int) -> tuple[int, int] | None:
        """The stretch that holds a place."""
        i = bisect_right(self.ends, place)
        return (self.starts[i], self.ends[i]) if i < len(self.ends) and self.starts[i] <= place else None


@dataclass
class Balanced:
    """Tokens in which every opened bracket is closed. `heads` are the indices at which declarations begin, `quiet` the places
    where a mistake is known already and the parser keeps silent, `surplus` those of declarations with a `}` too many, `lost` those
    [start, end) of tokens that are left out, `torn` the offsets of strings that are not closed."""

    torn: Set[int]

    tokens: list[Token] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    quiet: Places = field(default_factory=Places)
    surplus: Places = field(default_factory=Places)
    lost: list[tuple[int, int]] = field(default_factory=list)


def balance(source: Source, tokens: list[Token], report: Report) -> Balanced:
    """The tokens with every bracket closed, declaration by declaration."""
    result = Balanced(torn={finding.span.start for finding in report.diagnostics if finding.code == "E0103"})
    heads = [i for i in range(len(tokens) - 1) if _is_head(tokens, i)]
    starts = [0, *(head for head in heads if head)]
    for start, end in zip(starts, [*starts[1:], len(tokens) - 1], strict=True):
        if start or heads[:1] == [0]:
            result.heads.append(len(result.tokens))
        result.tokens += _balanced(source, tokens[start:end], tokens[end], report, result)
        if _surplus(tokens[start:end]):
            result.surplus.add(tokens[start].start, tokens[end].start)
    result.tokens.append(tokens[-1])
    assert tokens[-1].type == END
    return result


def _is_head(tokens: list[Token], i: int) -> bool:
    """Whether a declaration begins here: by its shape, or by a keyword in the first column."""
    token = tokens[i]
    if token.indent < 0 or token.type not in _HEADS:
        return False
    if token.indent == 0 and tokens[i + 1].type in _AFTER_KEYWORD:
        return True
    i += 1
    if token.type in _NAMED and tokens[i].type == "NAME":
        i += 1
    elif token.type in _NAMED and token.type != "FLOW":
        return False
    return tokens[i].type in _HEADS[token.type]


def _balanced(source: Source, tokens: list[Token], following: Token, report: Report, result: Balanced) -> list[Token]:
    """The tokens of one declaration with what is missing put in."""
    deep = _too_deep(tokens)
    if deep is not None:
        span = Span(source.file, tokens[deep].start, tokens[deep].end)
        message = f"this is nested more than {MAX_DEPTH} levels deep"
        report.add("E0104", message, span, help=Help("split it into smaller parts"))
        result.quiet.add(tokens[0].start, following.start)
        result.lost.append((span.start, following.start))
        tokens = tokens[:deep]
    for attempt in range(MAX_GUESSES + 1):
        opened, misfit, limit = _unclosed(tokens)
        if not opened:
            break
        if misfit is None or attempt == MAX_GUESSES:
            place, at, added = opened[-1], len(tokens), opened[::-1]
        else:
            place, at, added = misfit, _closing_place(tokens, misfit, limit), [misfit]
        if deep is None and not _torn(tokens[place:at], result.torn):
            _report(source, tokens, added, at, report)
            result.quiet.add(tokens[place].start, following.start)
        tokens = [*tokens[:at], *(_closing(tokens, opener, at) for opener in added), *tokens[at:]]
    return tokens


def _too_deep(tokens: list[Token]) -> int | None:
    """The first token that is nested too deeply: the brackets around it and the operators of the expressions around it."""
    levels = [0]  # operators of the running expression, per open bracket
    depth = 0
    for i, token in enumerate(tokens):
        kind = token.type
        if kind in _ENDS_EXPRESSION:
            depth -= levels[-1]
            levels[-1] = 0
        if kind in CLOSER:
            levels.append(0)
            depth += 1
        elif kind in CLOSERS and len(levels) > 1:
            depth -= 1 + levels.pop()
        elif kind in _OPERATORS:
            levels[-1] += 1
            depth += 1
        if depth > MAX_DEPTH:
            return i
    return None


def _unclosed(tokens: list[Token]) -> tuple[list[int], int | None, int]:
    """The brackets left open (outermost first), the one that by its looks should have been closed before, and the index before
    which it should.

    That is a `(` or `[` within which a brace or the closing bracket of another one comes, or a bracket whose partner stands
    further left than the bracket's line.
    """
    stack: list[tuple[int, int]] = []  # bracket and the indentation of its line
    misfit: int | None = None
    indent = 0
    for i, token in enumerate(tokens):
        kind = token.type
        if token.indent >= 0:
            indent = token.indent
        top = tokens[stack[-1][0]].type if stack else ""
        if (top in ("LPAREN", "LBRACKET") and kind in ("LBRACE", "RBRACE")) or _closes_outer(tokens, stack, kind):
            return [place for place, _ in stack], stack[-1][0], i
        if kind in CLOSER:
            stack.append((i, indent))
        elif kind in CLOSERS and CLOSER.get(top) == kind:
            place, line_indent = stack.pop()
            if misfit is None and 0 <= token.indent < line_indent:
                misfit = place
    opened = [place for place, _ in stack]
    if opened and misfit is None and tokens[opened[-1]].type != "LBRACE":
        misfit = opened[-1]
    return opened, misfit, len(tokens)


def _closes_outer(tokens: list[Token], stack: list[tuple[int, int]], kind: str) -> bool:
    """Whether a `)` or `]` belongs to a bracket around the innermost one, in the same call or list."""
    if kind not in ("RPAREN", "RBRACKET"):
        return False
    for depth, (place, _) in enumerate(reversed(stack)):
        opener = tokens[place].type
        if opener == "LBRACE" or CLOSER[opener] == kind:
            return depth > 0 and opener != "LBRACE"
    return False


def _surplus(tokens: list[Token]) -> bool:
    """Whether more blocks are closed than opened."""
    depth = 0
    for token in tokens:
        depth += (token.type == "LBRACE") - (token.type == "RBRACE")
        if depth < 0:
            return True
    return False


def _closing_place(tokens: list[Token], opener: int, limit: int) -> int:
    """The index before which a bracket should have been closed: that of the first line not further in than its own."""
    indent = next((token.indent for token in reversed(tokens[: opener + 1]) if token.indent >= 0), 0)
    return next((i for i in range(opener + 1, limit) if 0 <= tokens[i].indent <= indent), limit)


def _torn(tokens: list[Token], torn: Set[int]) -> bool:
    """Whether an unclosed string among the tokens is to blame for what is missing."""
    return bool(torn) and any(token.start in torn for token in tokens)


def _closing(tokens: list[Token], opener: int, at: int) -> Token:
    """The missing bracket, just behind the token before index `at`."""
    place = tokens[at - 1].end
    return Token(CLOSER[tokens[opener].type], place, place, -1)


def _report(source: Source, tokens: list[Token], opened: list[int], at: int, report: Report) -> None:
    """One finding for brackets (innermost first) that end before index `at`."""
    opener, *others = (tokens[i] for i in opened)
    what = "block" if opener.type == "LBRACE" else f"`{_SIGN[opener.type]}`"
    closing = _SIGN[CLOSER[opener.type]]
    end = tokens[at - 1].end
    text = closing
    if opener.type == "LBRACE":
        line = source.line(source.position(opener.start)[0])
        several = "\n" in source.text[opener.start : end]
        text = f"\n{line[: len(line) - len(line.lstrip())]}}}" if several else " }"
    report.add(
        "E0102",
        f"this {what} is never closed",
        Span(source.file, opener.start, opener.end),
        labels=[Label(Span(source.file, token.start, token.end), "this is still open as well") for token in others],
        help=Help(f"close it with `{closing}`", (Edit(Span(source.file, end, end), text),) if not others else ()),
    )

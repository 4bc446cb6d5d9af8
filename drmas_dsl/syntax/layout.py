"""Where the formatter breaks lines, indents, puts blanks and aligns.

It runs over the tokens, so nothing but blanks, line ends and separators can change; the tree only says where settings, statements
and declarations begin. Tokens are gathered into groups by their brackets, then written from the outermost in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from drmas_dsl.syntax import ast
from drmas_dsl.syntax.lexer import END, Comment, Token
from drmas_dsl.syntax.source import Source
from drmas_dsl.syntax.structure import CLOSER, CLOSERS
from drmas_dsl.syntax.text import reindented

WIDTH = 100  # what is longer is broken at its brackets
INDENT = "  "
_TIGHT_BEFORE = ("COMMA", "SEMICOLON", "DOT", "RANGE", "RPAREN", "RBRACKET")
_TIGHT_AFTER = ("LPAREN", "LBRACKET", "DOT", "RANGE")
_SEPARATORS = ("COMMA", "SEMICOLON")
_OPERATORS = frozenset("ARROW OR AND PLUS MINUS STAR SLASH PERCENT EQ NE LE LT GE GT".split())


@dataclass(slots=True)
class _Group:
    """Brackets and what is between them: settings, statements or arguments, each a list of tokens' indices and groups."""

    open: int
    close: int
    members: list[_Member]
    kind: str  # settings, statements, call (or list), or parenthesis


_Member = list["int | _Group"]


@dataclass(slots=True)
class _Line:
    indent: int
    text: str = ""
    comment: str = ""
    blank_before: bool = False
    equal: int = -1  # where the `=` of a setting stands, if it may be aligned
    key: int = 0  # settings are aligned among those with the same key


class _Places:
    """What the tree says about offsets: where members begin, calls open and operators have one side only."""

    def __init__(self, tree: ast.File) -> None:
        self.starts: dict[int, str] = {}
        self.callees: set[int] = set()  # ends of the names of what is called
        self.unary: set[int] = set()
        self.visit(tree)

    def visit(self, node: Any) -> None:
        if isinstance(node, tuple):
            for item in node:
                self.visit(item)
        elif isinstance(node, ast.Chain):
            self.starts[node.span.start] = "statements"
            for step in node.steps:
                self.visit(step.target)
        elif is_dataclass(node):
            if isinstance(node, (ast.Declaration, ast.Item, ast.Stmt)):
                kind = "statements" if isinstance(node, ast.Stmt) else "settings"
                self.starts[node.span.start] = kind
            if isinstance(node, ast.FlowDecl) and node.name:
                self.callees.add(node.name.span.end)
            if isinstance(node, ast.Call):
                self.callees.add(node.function.span.end)
            if isinstance(node, ast.Unary):
                self.unary.add(node.span.start)
            for field in fields(node):
                self.visit(getattr(node, field.name))


def layout(source: Source, tree: ast.File, tokens: Sequence[Token], comments: Sequence[Comment]) -> str:
    """The text of a file without syntax errors in the one style."""
    return _Layout(source, tree, tokens, comments).text()


class _Layout:
    def __init__(self, source: Source, tree: ast.File, tokens: Sequence[Token], comments: Sequence[Comment]) -> None:
        self.source = source
        self.places = _Places(tree)
        self.tokens = tokens
        self.leading: dict[
            int, list[tuple[str, bool]]
        ] = {}  # comments on lines of their own; a blank line before each?
        self.trailing: dict[int, list[str]] = {}
        self.blank: set[int] = set()  # tokens with a blank line before them
        self.attach(comments)
        self.lines: list[_Line] = []
        self.first = True  # nothing stands yet in the block: no blank line here
        self.closed = False  # the last line ends with a comment

    def attach(self, comments: Sequence[Comment]) -> None:
        """Give every comment to a token: to the next one, or on its line to the one before; separators get none."""
        text, waiting = self.source.text, iter([*comments, None])
        comment = next(waiting)
        end, kept = 0, -1
        for i, token in enumerate(self.tokens):
            if token.type in _SEPARATORS:
                continue
            while comment is not None and comment.start < token.start:
                written = text[comment.start : comment.end].rstrip()
                if comment.own_line or kept < 0 or i in self.leading:
                    self.leading.setdefault(i, []).append((written, text.count("\n", end, comment.start) > 1))
                else:
                    self.trailing.setdefault(kept, []).append(written)
                end = comment.end
                comment = next(waiting)
            if text.count("\n", end, token.start) > 1:
                self.blank.add(i)
            end, kept = token.end, i

    # Groups

    def members(self, i: int) -> tuple[list[_Member], int]:
        """The settings, statements or declarations from token `i` to the closing bracket, and that bracket's index."""
        found: list[_Member] = []
        while self.tokens[i].type not in ("RBRACE", END):
            if self.tokens[i].start in self.places.starts:
                found.append([])
            if self.tokens[i].type in _SEPARATORS:
                i += 1
                continue
            part, i = self.part(i)
            found[-1].append(part)
        return found, i

    def arguments(self, i: int) -> tuple[list[_Member], int]:
        """The same for a call, list or parenthesis."""
        found: list[_Member] = []
        fresh = True
        while self.tokens[i].type not in ("RPAREN", "RBRACKET"):
            if self.tokens[i].type == "COMMA":
                fresh = True
                i += 1
                continue
            if fresh:
                found.append([])
                fresh = False
            part, i = self.part(i)
            found[-1].append(part)
        return found, i

    def part(self, i: int) -> tuple[int | _Group, int]:
        """The token or group at index `i`, and the index behind it."""
        kind = self.tokens[i].type
        if kind not in CLOSER:
            return i, i + 1
        members, close = (self.members if kind == "LBRACE" else self.arguments)(i + 1)
        if kind == "LBRACE":
            group = self.places.starts.get(self.tokens[i + 1].start, "settings")
        else:
            called = kind == "LBRACKET" or self.tokens[i - 1].end in self.places.callees
            group = "call" if called else "parenthesis"
        return _Group(i, close, members, group), close + 1

    # On one line

    def flat(self, parts: Iterable[int | _Group]) -> str | None:
        """The parts on one line; None where a comment, a text block or a line break that is kept stands among them."""
        out: list[str] = []
        for part in parts:
            first = part if isinstance(part, int) else part.open
            if out and self.spaced(first):
                out.append(" ")
            written = self.word(part) if isinstance(part, int) else self.flat_group(part)
            if written is None:
                return None
            out.append(written)
        return "".join(out)

    def word(self, i: int) -> str | None:
        """A token alone on its line; None where it has comments or line breaks."""
        token = self.tokens[i]
        written = self.source.text[token.start : token.end]
        return None if i in self.leading or i in self.trailing or "\n" in written else written

    def flat_group(self, group: _Group) -> str | None:
        if self.broken(group) or self.word(group.open) is None or self.word(group.close) is None:
            return None
        members = [self.flat(member) for member in group.members]
        if None in members:
            return None
        joined = ("; " if group.kind == "statements" else ", ").join(str(member) for member in members)
        opening, closing = self.signs(group)
        blank = " " if opening == "{" and joined else ""
        return f"{opening}{blank}{joined}{blank}{closing}"

    def signs(self, group: _Group) -> tuple[str, str]:
        text = self.source.text
        return text[self.tokens[group.open].start], text[self.tokens[group.close].start]

    def broken(self, group: _Group) -> bool:
        """Whether the writer broke the lines of a group: a block anywhere, others behind their opening bracket."""
        opening = self.tokens[group.open]
        until = self.tokens[group.close if opening.type == "LBRACE" else group.open + 1].start
        return bool(group.members) and "\n" in self.source.text[opening.end : until]

    def spaced(self, i: int) -> bool:
        """Whether a blank stands before token `i` when it does not begin a line."""
        before, token = self.tokens[i - 1], self.tokens[i]
        if token.type in _TIGHT_BEFORE or before.type in _TIGHT_AFTER:
            return False
        if before.type == "MINUS" and before.start in self.places.unary:
            return False
        if token.type == "LPAREN":
            return before.end not in self.places.callees
        return not (token.type == "COLON" and self.tokens[i - 2].type == "PARAM")

    def equal_of(self, member: _Member) -> int:
        """The position in a setting of its `=`, -1 for anything else."""
        for position, part in enumerate(member[:3]):
            if isinstance(part, int) and self.tokens[part].type == "EQUAL":
                return position
        return -1

    # Over several lines

    def text(self) -> str:
        """The whole file."""
        members, end = self.members(0)
        for member in members:
            self.member(member, 0)
        self.comments_before(end, 0)
        return aligned(self.lines)

    def new_line(self, indent: int, blank: bool = False) -> _Line:
        self.lines.append(_Line(indent, blank_before=blank and not self.first))
        self.first = self.closed = False
        return self.lines[-1]

    def comments_before(self, i: int, indent: int) -> None:
        """The comments that stand on lines of their own before a token."""
        for written, blank in self.leading.pop(i, ()):
            self.new_line(indent, blank).text = written

    def comments_behind(self, comments: Sequence[str], indent: int) -> None:
        """The comments at the end of the present line; more than one go on in lines of their own."""
        for written in comments:
            if self.closed:
                self.new_line(indent).text = written
            else:
                self.lines[-1].comment = written
            self.closed = True

    def member(self, member: _Member, indent: int, suffix: str = "") -> None:
        """A declaration, setting, statement or argument, from a new line on."""
        first, last = _ends(member)
        self.comments_before(first, indent)
        line = self.new_line(indent, first in self.blank)
        behind = self.trailing.pop(last, ())
        whole = self.flat(member)
        if whole is not None and len(INDENT) * indent + len(whole) + len(suffix) <= WIDTH:
            line.text = whole
        else:
            self.spread(member, indent)
        self.lines[-1].text += suffix
        self.comments_behind(behind, indent)
        equal = self.equal_of(member)
        head = self.flat(member[:equal]) if equal > 0 and indent else None
        if head is not None and self.places.starts.get(self.tokens[first].start) == "settings":
            line.equal, line.key = len(head) + 1, equal

    def spread(self, member: _Member, indent: int) -> None:
        """A member that does not fit on a line: its blocks are opened, its calls where they are too long."""
        for position, part in enumerate(member):
            first = part if isinstance(part, int) else part.open
            blank = " " if position and self.spaced(first) else ""
            if isinstance(part, int):
                if position and part not in self.leading and not self.closed and self.continues(part):
                    self.new_line(indent + 1)
                    blank = ""
                self.put(part, indent, blank)
                continue
            written = self.flat_group(part)
            room = WIDTH - len(INDENT) * self.lines[-1].indent - len(self.lines[-1].text)
            call = part.kind in ("call", "parenthesis")
            if written is not None and not self.closed and (not part.members or (call and len(written) < room)):
                self.lines[-1].text += blank + written
            else:
                self.open(part, indent, blank)

    def continues(self, i: int) -> bool:
        """Whether an operator begins a line: where the writer broke a long expression at it."""
        token = self.tokens[i]
        if token.type not in _OPERATORS or token.start in self.places.unary:
            return False
        return "\n" in self.source.text[self.tokens[i - 1].end : self.tokens[i + 1].start]

    def put(self, i: int, indent: int, blank: str) -> None:
        """A token on the present line, or on a new one where a comment comes between."""
        token = self.tokens[i]
        if i in self.leading or self.closed:
            inner = indent if token.type in ("ELIF", "ELSE", *CLOSERS) else indent + 1
            self.comments_before(i, inner)
            self.new_line(inner)
            blank = ""
        written = self.source.text[token.start : token.end]
        if token.type == "TEXT_BLOCK":
            written = reindented(written, INDENT * self.lines[-1].indent, INDENT)
        self.lines[-1].text += blank + written
        self.comments_behind(self.trailing.pop(i, ()), indent + 1)

    def open(self, group: _Group, indent: int, blank: str) -> None:
        """A group with each member on lines of its own."""
        self.put(group.open, indent, blank)
        self.first = True
        for member in group.members:
            self.member(member, indent + 1, "," if group.kind == "call" else "")
        self.comments_before(group.close, indent + 1)
        self.first = False
        self.new_line(indent)
        self.put(group.close, indent, "")


def _ends(member: _Member) -> tuple[int, int]:
    """The indices of a member's first and last token."""
    first, last = member[0], member[-1]
    return first if isinstance(first, int) else first.open, last if isinstance(last, int) else last.close


def aligned(lines: Sequence[_Line]) -> str:
    """The lines as text, with the `=` of neighbouring settings and neighbouring comments one below the other."""
    for run in _runs(lines, lambda line: (line.indent, line.key) if line.key else None):
        column = max(line.equal for line in run)
        for line in run:
            line.text = line.text[: line.equal] + " " * (column - line.equal) + line.text[line.equal :]
    for run in _runs(lines, lambda line: line.indent):
        width = max((_width(line) for line in run if line.comment), default=0)
        for line in run:
            if line.comment:
                line.text += " " * (width - _width(line) + 2) + line.comment
    out = []
    for line in lines:
        out.append("\n" if line.blank_before else "")
        out.append(f"{INDENT * line.indent}{line.text}".rstrip() + "\n")
    return "".join(out)


def _width(line: _Line) -> int:
    """Columns of a line, of its last one where a text block stands in it."""
    return (0 if "\n" in line.text else len(INDENT) * line.indent) + len(line.text.rpartition("\n")[2])


def _runs(lines: Sequence[_Line], key: Callable[[_Line], Any]) -> Iterator[list[_Line]]:
    """The longest runs of neighbouring lines with the same key that is not None; lines with line breaks end one."""
    run: list[_Line] = []
    for line in lines:
        if run and (key(line) != key(run[-1]) or line.blank_before or "\n" in run[-1].text):
            yield run
            run = []
        if key(line) is not None:
            run.append(line)
    if run:
        yield run

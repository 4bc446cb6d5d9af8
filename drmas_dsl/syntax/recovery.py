"""What the parser does at a token that fits nowhere: says what was expected, and finds the way on.

Two ways. A repair: one sign put in, changed or left out, if the tokens behind it then fit; it becomes the finding's help.
Else panic: the parser falls back to the list it was in (settings, statements, declarations) and reads on at the next line that
begins a member of it. A mistake that is known already, and what it drags along, is passed over in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.expected import expected, found, sign
from drmas_dsl.syntax.lexer import BAD, END, KEYWORDS, WORDS, Token
from drmas_dsl.syntax.source import Source, Span
from drmas_dsl.syntax.structure import CLOSER, CLOSERS, Balanced
from drmas_dsl.syntax.table import Table

MAX_ERRORS = 50
_LOOKAHEAD = 8  # tokens that should fit behind a repair
_NEEDED = 4  # of them, at least
_INSERTED = ("EQUAL", "COMMA", "COLON", "LBRACE", "ARROW", "LPAREN", "RANGE", "DOT")
_REPLACED = {
    "EQUAL": ("EQ", "COLON"), "EQ": ("EQUAL",), "COLON": ("EQUAL",), "SEMICOLON": ("COMMA",), "MINUS": ("ARROW",),
    "COMMA": ("SEMICOLON", "ARROW"), "ARROW": ("EQUAL",), "DOT": ("RANGE",),
}  # fmt: skip
# Behind these a value or a name must stand.
_WANTS_MORE = frozenset(
    "EQUAL COMMA ARROW COLON DOT RANGE OR AND NOT EQ NE LE LT GE GT PLUS MINUS STAR SLASH PERCENT".split()
)
_HINTS = {
    "'": 'strings stand in double quotes, `"…"`',
    "//": "comments begin with `#`",
    "/*": "comments begin with `#`",
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
}


@dataclass
class Stack:
    """The parser's stack in parallel lists: states (one more than the others), values, and their places."""

    states: list[int]
    values: list[Any]
    starts: list[int]
    ends: list[int]

    def cut(self, size: int) -> None:
        """Keep the `size` lowest values."""
        del self.states[size + 1 :], self.values[size:], self.starts[size:], self.ends[size:]


class Recovery:
    """Made for one run of the parser; remembers where the last mistake was."""

    def __init__(self, table: Table, balanced: Balanced, start: str, source: Source, report: Report) -> None:
        self.table = table
        self.tokens = balanced.tokens
        self.heads = frozenset(balanced.heads)
        self.quiet = balanced.quiet
        self.start = start
        self.source = source
        self.report = report
        self.errors = 0
        self.resumed = -2  # where the parser went on last

    def recover(self, stack: Stack, i: int) -> int | None:
        """Report token `i`, mend the stack, and return the index to go on from; None to give up."""
        silent = self._silent(i)
        if not silent:
            self.errors += 1
            repaired = self._repaired(stack, i)
            if repaired is not None:
                return repaired
        if self.start != "file" or self.errors >= MAX_ERRORS:
            if not silent:
                self._report(stack, i, None)
            if self.start != "file":
                return None
            stack.cut(self._list_of_declarations(stack))
            return len(self.tokens) - 1
        early = self._value_missing(i)
        if not silent:
            self._report(stack, i, None, early)
        self.resumed = self._panic(stack, i - 1 if early else i)
        return self.resumed

    def _silent(self, i: int) -> bool:
        token = self.tokens[i]
        if token.type != END and token.start == token.end:
            return True
        if any(start <= token.start < end for start, end in self.quiet):
            return True
        return i <= self.resumed + 1

    # Looking ahead, on a copy of the states alone

    def _fits(self, states: list[int], types: list[str]) -> int:
        """How many of the terminals the automaton takes one after the other."""
        states = list(states)
        rows, rules, end = self.table.states, self.table.rules, self.table.end[self.start]
        for count, kind in enumerate(types):
            while True:
                action = rows[states[-1]].get(kind)
                if action is None:
                    return count
                if action >= 0:
                    states.append(action)
                    break
                name, length, _, _ = rules[-1 - action]
                if length:
                    del states[-length:]
                states.append(rows[states[-1]][name])
                if kind == END and states[-1] == end:
                    return len(types)
        return len(types)

    def _accepted(self, states: list[int]) -> set[str]:
        """The terminals that may come next."""
        return {kind for kind in self.table.states[states[-1]] if kind.isupper() and self._fits(states, [kind])}

    # Repairs

    def _repaired(self, stack: Stack, i: int) -> int | None:
        """Apply the repair behind which most tokens fit, if there is a good one, and report it."""
        token, tokens = self.tokens[i], self.tokens
        ahead = [t.type for t in tokens[i : i + _LOOKAHEAD + 1]]
        candidates: list[tuple[int, int, str, list[str]]] = []
        for rank, kind in enumerate(_REPLACED.get(token.type, ())):
            candidates.append((self._fits(stack.states, [kind, *ahead[1:]]) - 1, -rank, "replace", [kind]))
        if token.type != END and token.type not in CLOSER and token.type != "RBRACE":
            candidates.append((self._fits(stack.states, ahead[1:]), -20, "remove", []))
        for rank, kind in enumerate(_INSERTED):
            candidates.append((self._fits(stack.states, [kind, *ahead]) - 1, -10 - rank, "insert", [kind]))
        reach, _, how, kinds = max(candidates)
        if reach < min(_NEEDED, len(ahead) - 1) or reach < 1:
            return None
        if how == "remove" and (token.type == BAD or token.type in WORDS or tokens[i].indent >= 0):
            return None
        self._report(stack, i, (how, kinds))
        if how == "replace":
            self.tokens[i] = Token(kinds[0], token.start, token.end, token.indent)
            return i
        if how == "insert":
            place = tokens[i - 1].end if i else 0
            self.tokens[i:i] = [Token(kinds[0], place, place, -1)]
            self.heads = frozenset(head + (head >= i) for head in self.heads)
            return i
        return i + 1

    # Panic

    def _value_missing(self, i: int) -> bool:
        """Whether the name before token `i` began a line of its own, and what is missing stood before it: `a =⏎b = 1`."""
        before = self.tokens[i - 1] if i else None
        return (
            i > 1
            and self.tokens[i].type == "EQUAL"
            and before is not None
            and before.indent >= 0
            and before.type in WORDS
            and self.tokens[i - 2].type in _WANTS_MORE
        )

    def _list_of_declarations(self, stack: Stack) -> int:
        """How many values of the stack are whole declarations (they are one list)."""
        return 1 if stack.values and isinstance(stack.values[0], list) else 0

    def _panic(self, stack: Stack, i: int) -> int:
        """Fall back to the innermost list around token `i`; the index of its next member or of its end."""
        size = len(stack.values)
        while size > self._list_of_declarations(stack):
            value = stack.values[size - 1]
            if isinstance(value, Token) and value.type == "LBRACE":
                break
            if isinstance(value, list) and self._in_braces(stack, size):
                break
            size -= 1
        began = stack.starts[size] if size < len(stack.starts) else self.tokens[i].start
        stack.cut(size)
        return self._next_member(stack, i, began, inside=size > self._list_of_declarations(stack))

    def _in_braces(self, stack: Stack, size: int) -> bool:
        """Whether the value on top of `size` is the list of a block's members."""
        before = stack.values[size - 2] if size > 1 else None
        return isinstance(before, Token) and before.type == "LBRACE"

    def _next_member(self, stack: Stack, i: int, began: int, *, inside: bool) -> int:
        depth = 0
        accepted = self._accepted(stack.states)
        for j in range(i, len(self.tokens)):
            token = self.tokens[j]
            if token.type == END or (j in self.heads and (j > i or token.start > began)):
                return j
            if token.type in CLOSER:
                depth += 1
            elif token.type in CLOSERS:
                if depth == 0 and inside and token.type == "RBRACE":
                    return j
                depth = max(depth - 1, 0)
            elif inside and depth == 0 and token.indent >= 0 and token.start > began and token.type in accepted:
                return j
        return len(self.tokens) - 1

    # The finding

    def _report(self, stack: Stack, i: int, repair: tuple[str, list[str]] | None, early: bool = False) -> None:
        token = self.tokens[i]
        text = self.source.text
        accepted = self._accepted(stack.states)
        written = text[token.start : token.end]
        before = self.tokens[i - 2 if early else i - 1] if i else None
        if early:
            message = f"expected a value or name after `{text[before.start : before.end]}`" if before else ""
        elif token.type == BAD and written[:1].isdigit():
            message = f"`{written[:40]}` is neither a number nor a name"
        else:
            message = f"expected {expected(accepted)}, found {found(token, text)}"
        notes = []
        if token.type in KEYWORDS and "NAME" in accepted and token.type not in accepted:
            notes.append(f"`{written}` is a keyword of the language and cannot be a name here")
        broken_off = before is not None and token.indent >= 0 and not accepted & {"RBRACE", END}
        if before is not None and (early or broken_off or token.type == END):
            span = Span(self.source.file, before.end, before.end)
        else:
            span = Span(self.source.file, token.start, max(token.end, token.start))
        self.report.add("E0101", message, span, notes=notes, help=self._help(i, span, repair, accepted))

    def _help(self, i: int, span: Span, repair: tuple[str, list[str]] | None, accepted: set[str]) -> Help | None:
        token = self.tokens[i]
        written = self.source.text[token.start : token.end]
        place = Span(self.source.file, token.start, token.end)
        hint = next((hint for start, hint in _HINTS.items() if written.startswith(start)), None)
        if hint and token.type in (BAD, "SLASH"):
            return Help(hint)
        if token.type == "IF" and i and self.tokens[i - 1].type == "ELSE":
            both = Span(self.source.file, self.tokens[i - 1].start, token.end)
            return Help("write `elif`", (Edit(both, "elif"),))
        if i and self.tokens[i - 1].type == "RETURN" and "NONE" in accepted:
            return Help("`return` takes a value; `return none` returns nothing")
        if repair is None:
            return None
        how, kinds = repair
        if how == "remove":
            return Help(f"remove `{written}`", (Edit(place, ""),))
        if how == "replace":
            return Help(f"write `{sign(kinds[0])}`", (Edit(place, sign(kinds[0])),))
        at = self.tokens[i - 1].end if i else 0
        space = " " if kinds[0] in ("EQUAL", "LBRACE", "ARROW") else ""
        return Help(f"insert `{sign(kinds[0])}`", (Edit(Span(self.source.file, at, at), space + sign(kinds[0])),))

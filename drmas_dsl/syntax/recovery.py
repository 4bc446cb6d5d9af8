"""What the parser does at a token that fits nowhere: says what was expected, and finds the way on.

Two ways. A repair: one sign put in, changed or left out, if the tokens behind it then fit; it becomes the finding's help.
Else panic: the parser falls back to the list it was in (settings, statements, declarations) and reads on at the next line that
begins a member of it. A mistake that is known already, and what it drags along, is passed over in silence.
"""

from __future__ import annotations

from drmas_dsl.diagnostics.diagnostic import Edit, Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.automaton import Automaton
from drmas_dsl.syntax.expected import expected, found, sign
from drmas_dsl.syntax.lexer import BAD, END, KEYWORDS, SIGNS, WORDS, Token
from drmas_dsl.syntax.source import Source, Span
from drmas_dsl.syntax.structure import CLOSER, CLOSERS, Balanced

MAX_ERRORS = 50
_LOOKAHEAD = 8  # tokens that should fit behind a repair
_NEEDED = 4  # of them, at least
_INSERTED = ("COMMA", "EQUAL", "COLON", "LBRACE", "ARROW", "LPAREN", "RANGE", "DOT")
_REPLACED = {
    "EQUAL": ("EQ", "COLON"), "EQ": ("EQUAL",), "COLON": ("EQUAL",), "SEMICOLON": ("COMMA",), "MINUS": ("ARROW",),
    "COMMA": ("SEMICOLON", "ARROW"), "ARROW": ("EQUAL",), "DOT": ("RANGE",),
}  # fmt: skip
# Behind these a value or a name must stand.
_WANTS_MORE = frozenset(
    "EQUAL COMMA ARROW COLON DOT RANGE OR AND NOT EQ NE LE LT GE GT PLUS MINUS STAR SLASH PERCENT".split()
)
_BRACKETS = CLOSERS | CLOSER.keys()
_HINTS = {
    "'": 'strings stand in double quotes, `"…"`',
    "//": "comments begin with `#`",
    "/*": "comments begin with `#`",
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
}


class Recovery:
    """Made for one run of the parser; counts the mistakes."""

    def __init__(self, automaton: Automaton, balanced: Balanced, source: Source, report: Report) -> None:
        self.automaton = automaton
        self.tokens = balanced.tokens
        self.heads = set(balanced.heads)
        self.quiet = balanced.quiet
        self.surplus = balanced.surplus
        self.lost = balanced.lost
        self.source = source
        self.report = report
        self.errors = 0
        self.mistake = -1  # where the last one was reported
        self.dropped = 0  # from where on the text of the last one is lost

    def recover(self, i: int) -> int | None:
        """Report token `i`, mend the stack, and return the index to go on from; None to give up."""
        early = self._value_missing(i)
        if not self._silent(i):
            self.errors += 1
            repaired = None if early else self._repaired(i)
            if repaired is not None:
                return repaired
            self._report(i, None, early)
        if self.automaton.start != "file":
            return None
        self.dropped = self.tokens[i].start
        if self.errors >= MAX_ERRORS:
            self._leave()
            resumed = len(self.tokens) - 1
        else:
            resumed = self._panic(i - 1, whole=False) if early else self._panic(i)
        self.lost.append((self.dropped, self.tokens[resumed].start))
        return resumed

    def _silent(self, i: int) -> bool:
        """Whether the mistake at token `i` is known: a bracket that was put in, a quiet place, what a `}` too many leaves over."""
        token = self.tokens[i]
        added = token.type != END and token.start == token.end
        if added or self.quiet.around(token.start):
            return True
        segment = self.surplus.around(token.start)
        return segment is not None and segment[0] <= self.mistake < token.start and self._brace() < 0

    def _brace(self) -> int:
        """Where on the stack the innermost block was opened that is still open; -1 outside of blocks."""
        kinds = [getattr(value, "type", "") for value in self.automaton.values]
        braces = [k for k, kind in enumerate(kinds) if kind == "LBRACE"]
        if kinds and kinds[-1] == "RBRACE":  # closed, and only not reduced yet
            braces.pop()
        return braces[-1] if braces else -1

    # Repairs

    def _repaired(self, i: int) -> int | None:
        """Apply the repair behind which most tokens fit, if there is a good one, and report it."""
        token, tokens, fits = self.tokens[i], self.tokens, self.automaton.fits
        ahead = [t.type for t in tokens[i : i + _LOOKAHEAD + 1]]
        candidates: list[tuple[int, int, str, str]] = []
        for rank, kind in enumerate(_REPLACED.get(token.type, ()) if token.indent < 0 else ()):
            candidates.append((fits([kind, *ahead[1:]]) - 1, -rank, "replace", kind))
        surplus = self.surplus.around(token.start) is not None
        if surplus and token.type not in CLOSERS:
            candidates.append((fits(["LBRACE", *ahead[1:]]) - 1, -5, "replace", "LBRACE"))
        if i and token.type == tokens[i - 1].type and token.type in SIGNS and token.type not in _BRACKETS:
            candidates.append((fits(ahead[1:]), -20, "remove", ""))
        for rank, kind in enumerate(_INSERTED):
            if kind != "LBRACE" or surplus:
                candidates.append((fits([kind, *ahead]) - 1, -10 - rank, "insert", kind))
        reach, _, how, kind = max(candidates)
        if reach < max(1, min(_NEEDED, len(ahead) - 1)):
            return None
        self._report(i, (how, kind))
        if how == "remove":
            return i + 1
        if how == "replace":
            tokens[i] = Token(kind, token.start, token.end, token.indent)
        else:
            place = tokens[i - 1].end if i else 0
            tokens.insert(i, Token(kind, place, place, -1))
            self.heads = {head + (head >= i) for head in self.heads}
        return i

    # Panic

    def _value_missing(self, i: int) -> bool:
        """Whether the word before token `i` begins a setting or declaration of its own, and what is missing stood before it:
        `a =⏎b = 1`."""
        if i < 2 or self.tokens[i - 2].type not in _WANTS_MORE:
            return False
        before = self.tokens[i - 1]
        begins = self.tokens[i].type == "EQUAL" and before.indent >= 0 and before.type in WORDS
        return begins or i - 1 in self.heads

    def _leave(self) -> None:
        """Fall back to the list of declarations."""
        values = self.automaton.values
        if self.automaton.fits([END]):
            self.automaton.settle(END)
        self._cut(1 if values and isinstance(values[0], list) else 0)

    def _cut(self, size: int) -> None:
        """Drop what stands on the stack behind its `size` lowest values."""
        starts = self.automaton.starts
        if size < len(starts):
            self.dropped = min(self.dropped, starts[size])
        self.automaton.cut(size)

    def _panic(self, i: int, *, whole: bool = True) -> int:
        """Fall back to the innermost list around token `i`; the index of its next member or of its end. What was read of the
        present member is kept where it is `whole`."""
        values = self.automaton.values
        complete = next((kind for kind in (END, "RBRACE") if whole and self.automaton.fits([kind])), None)
        if complete:
            self.automaton.settle(complete)
        brace = self._brace()
        around = [getattr(value, "type", "") for value in values[brace + 1 :]]
        calls = around.count("LPAREN") + around.count("LBRACKET")  # that are open around the mistake
        blocks = 0  # that begin behind it
        if brace < 0:
            self._leave()
        elif not complete:
            self._cut(brace + 1 + (len(values) > brace + 1 and isinstance(values[brace + 1], list)))
        accepted = self.automaton.accepted()
        for j in range(i, len(self.tokens)):
            token = self.tokens[j]
            kind = token.type
            if kind == END or j in self.heads:
                if brace >= 0:
                    self._leave()
                return j
            if kind in ("LBRACE", "RBRACE"):
                if kind == "RBRACE" and blocks == 0 and brace >= 0:
                    return j
                blocks = blocks + 1 if kind == "LBRACE" else max(blocks - 1, 0)
            elif kind in CLOSER:
                calls += 1
            elif kind in CLOSERS:
                calls = max(calls - 1, 0)
            elif (
                blocks == calls == 0
                and token.indent >= 0
                and (kind in accepted if brace >= 0 else j > i and self._looks_declared(j))
            ):
                return j
        raise AssertionError("the tokens end with END")

    def _looks_declared(self, i: int) -> bool:
        """Whether a line looks like a declaration with a misspelt keyword, so that it deserves a finding of its own."""
        kinds = [token.type for token in self.tokens[i : i + 3]]
        return (
            self.tokens[i].indent == 0
            and kinds[0] == "NAME"
            and "LBRACE" in (kinds[1], kinds[1] == "NAME" and kinds[2])
        )

    # The finding

    def _report(self, i: int, repair: tuple[str, str] | None, early: bool = False) -> None:
        token = self.tokens[i]
        text, file = self.source.text, self.source.file
        written = text[token.start : token.end]
        accepted = self.automaton.accepted()
        before = self.tokens[i - 2 if early else i - 1] if i else token
        span = Span(file, token.start, token.end)
        notes = []
        labels = []
        if token.type == "RBRACE" and END in accepted:
            message = "this `}` closes nothing"
        elif early or (token.indent >= 0 and before.type in WORDS | SIGNS.keys() and not accepted & {"RBRACE", END}):
            span = Span(file, before.end, before.end)  # the line before breaks off
            what = "a value" if early and before.type != "ARROW" else "a name" if early else expected(accepted)
            message = f"expected {what} after `{text[before.start : before.end]}`"
        elif token.type == BAD and written[:1].isdigit():
            message = f"`{written[:40]}` is neither a number nor a name"
        else:
            message = f"expected {expected(accepted)}, found {found(token, text)}"
            if token.type in KEYWORDS and "NAME" in accepted:
                notes.append(f"`{written}` is a keyword of the language and cannot be a name here")
            if before.type == "RBRACE" and END in accepted:
                labels.append(Label(Span(file, before.start, before.end), "the declaration before ends here"))
        self.mistake = token.start
        self.report.add("E0101", message, span, labels=labels, notes=notes, help=self._help(i, repair, accepted))

    def _help(self, i: int, repair: tuple[str, str] | None, accepted: set[str]) -> Help | None:
        token = self.tokens[i]
        written = self.source.text[token.start : token.end]
        place = Span(self.source.file, token.start, token.end)
        hint = next((hint for start, hint in _HINTS.items() if self.source.text.startswith(start, token.start)), None)
        if hint and token.type in (BAD, "SLASH"):
            return Help(hint)
        if token.type == "IF" and i and self.tokens[i - 1].type == "ELSE":
            both = Span(self.source.file, self.tokens[i - 1].start, token.end)
            return Help("write `elif`", (Edit(both, "elif"),))
        if token.type == "LBRACE" and i and self.tokens[i - 1].type == "EQUAL":
            equal = Span(self.source.file, self.tokens[i - 1].start, self.tokens[i - 1].end)
            return Help("a block stands behind its name without `=`", (Edit(equal, ""),))
        if i and self.tokens[i - 1].type == "RETURN" and "NONE" in accepted:
            return Help("`return` takes a value; `return none` returns nothing")
        if repair is None:
            return None
        how, kind = repair
        if how == "remove":
            return Help(f"remove `{written}`", (Edit(place, ""),))
        if how == "replace":
            blank = " " if kind == "EQUAL" and not self.source.text[token.start - 1].isspace() else ""
            return Help(f"write `{sign(kind)}`", (Edit(place, blank + sign(kind)),))
        at = self.tokens[i - 1].end if i else 0
        space = " " if kind in ("EQUAL", "LBRACE", "ARROW") else ""
        return Help(f"insert `{sign(kind)}`", (Edit(Span(self.source.file, at, at), space + sign(kind)),))

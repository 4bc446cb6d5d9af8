"""Findings as text for people, after rustc: place, source line, carets, labels, notes and help.

Columns are counted in characters; what is drawn is measured in cells, so tabs and wide characters stay aligned. Long lines
are cut around what matters. Nothing is decided here: a finding is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import category, combining, east_asian_width

from drmas_dsl.diagnostics.diagnostic import Diagnostic, Edit, Help
from drmas_dsl.syntax.source import Source, Span

TAB = 4
MAX_WIDTH = 140  # cells of a source line; a longer one is cut
_BEFORE = 50  # cells kept before a mark in a line that is cut

_COLOURS = {"error": "1;31", "warning": "1;33", "note": "1;36", "frame": "1;34", "bold": "1", "help": "1;32"}


def render_text(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source], color: bool = False) -> str:
    """The findings, a blank line after each."""
    return "".join(f"{_Renderer(sources, color).finding(diagnostic)}\n\n" for diagnostic in diagnostics)


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """How many findings of each severity there are: `2 errors, 1 warning`; empty without any."""
    counts = [(kind, sum(one.severity == kind for one in diagnostics)) for kind in ("error", "warning", "note")]
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts if count)


@dataclass(frozen=True)
class _Mark:
    """An underline in a line: characters [start, end) from 0, at least one wide."""

    start: int
    end: int
    primary: bool
    message: str


class _Renderer:
    def __init__(self, sources: Mapping[str, Source], color: bool) -> None:
        self.sources = sources
        self.color = color

    def paint(self, style: str, text: str) -> str:
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if self.color and text else text

    def finding(self, diagnostic: Diagnostic) -> str:
        severity = diagnostic.severity
        head = self.paint(severity, f"{severity}[{diagnostic.code}]") + self.paint("bold", f": {diagnostic.message}")
        marks = [(diagnostic.span, True, ""), *((label.span, False, label.message) for label in diagnostic.labels)]
        shown = [span for span, _, _ in marks if span.file in self.sources]
        lines = [self.sources[span.file].position(span.start)[0] for span in shown]
        gutter = len(str(max(lines, default=1)))
        files = list(dict.fromkeys(span.file for span, _, _ in marks))
        out = [head]
        for file in files:
            here = [mark for mark in marks if mark[0].file == file]
            out += self.snippet(file, here, gutter, severity)
        tail = [("note", note) for note in diagnostic.notes]
        if tail or diagnostic.help:
            out.append(self.frame(gutter, "|"))
        for kind, message in tail:
            out.append(self.remark(gutter, kind, message))
        if diagnostic.help:
            out.append(self.remark(gutter, "help", diagnostic.help.message))
            out += self.suggestion(diagnostic.help, gutter)
        return "\n".join(out)

    def frame(self, gutter: int, sign: str, number: int | None = None) -> str:
        return self.paint("frame", f"{'' if number is None else number:>{gutter}} {sign}")

    def remark(self, gutter: int, kind: str, message: str) -> str:
        indent = "\n" + " " * (gutter + 5 + len(kind))
        return f"{self.frame(gutter, '=')} {self.paint(kind, kind)}: {indent.join(message.splitlines())}"

    def snippet(self, file: str, marks: list[tuple[Span, bool, str]], gutter: int, severity: str) -> list[str]:
        """The lines of one file that carry marks, with the marks below them."""
        source = self.sources.get(file)
        if source is None:
            return [f"{' ' * gutter}{self.paint('frame', '-->')} {file}"]
        rows: dict[int, list[_Mark]] = {}
        for span, primary, message in marks:
            number, column = source.position(span.start)
            end_number, end_column = source.position(span.end)
            end = end_column - 1 if end_number == number else len(source.line(number))
            rows.setdefault(number, []).append(_Mark(column - 1, max(end, column), primary, message))
        first = next((span for span, primary, _ in marks if primary), marks[0][0])
        line, column = source.position(first.start)
        arrow = "-->" if marks[0][1] else ":::"
        out = [f"{' ' * gutter}{self.paint('frame', arrow)} {file}:{line}:{column}", self.frame(gutter, "|")]
        previous = None
        for number in sorted(rows):
            if previous is not None and number > previous + 1:
                out.append(self.paint("frame", "..."))
            out += self.line(source.line(number), number, rows[number], gutter, severity)
            previous = number
        return out

    def line(self, text: str, number: int, marks: list[_Mark], gutter: int, severity: str) -> list[str]:
        anchor = next((mark for mark in marks if mark.primary), marks[0])
        cells = _Cells(text, anchor.start)
        out = [f"{self.frame(gutter, '|', number)} {cells.shown}"]
        for mark in sorted(marks, key=lambda mark: (mark.start, not mark.primary)):
            left, right = cells.at(mark.start), max(cells.at(mark.end), cells.at(mark.start) + 1)
            line = ("^" if mark.primary else "-") * (right - left) + (f" {mark.message}" if mark.message else "")
            out.append(
                f"{self.frame(gutter, '|')} {' ' * left}{self.paint(severity if mark.primary else 'frame', line)}"
            )
        return out

    def suggestion(self, help: Help, gutter: int) -> list[str]:
        """The lines that the help's edits change, before and after; nothing where they span lines or files."""
        lines: dict[tuple[str, int], list[Edit]] = {}
        for edit in help.edits:
            source = self.sources.get(edit.span.file)
            if source is None:
                return []
            number = source.position(edit.span.start)[0]
            if source.position(edit.span.end)[0] != number or "\n" in edit.text:
                return []
            lines.setdefault((edit.span.file, number), []).append(edit)
        out: list[str] = []
        for (file, number), edits in lines.items():
            source = self.sources[file]
            begin = source.line_starts[number - 1]
            old = new = source.line(number)
            for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
                new = new[: edit.span.start - begin] + edit.text + new[edit.span.end - begin :]
            anchor = min(edit.span.start for edit in edits) - begin
            out.append(f"{self.frame(gutter, '-', number)} {self.paint('error', _Cells(old, anchor).shown)}")
            if new.strip():
                out.append(f"{self.frame(gutter, '+', number)} {self.paint('help', _Cells(new, anchor).shown)}")
        return out


class _Cells:
    """A line as it is drawn: tabs as blanks, control characters as signs, cut around the character `anchor` if it is long."""

    def __init__(self, text: str, anchor: int) -> None:
        first = max(0, anchor - _BEFORE) if len(text) > MAX_WIDTH else 0
        pieces: list[str] = ["…"] if first else []
        width = len(pieces)
        self.first = first
        self.offsets = []  # the cell at which each character begins
        for character in text[first:]:
            if width >= MAX_WIDTH:
                pieces.append("…")
                break
            self.offsets.append(width)
            piece = _drawn(character, width)
            pieces.append(piece)
            width += len(piece) if piece.isascii() else _width(piece)
        self.width = width
        self.shown = "".join(pieces).rstrip()

    def at(self, index: int) -> int:
        """The cell of a character; the edge for one that was cut away or stands behind the end."""
        index -= self.first
        if index < 0:
            return 0
        return self.offsets[index] if index < len(self.offsets) else self.width


def _drawn(character: str, column: int) -> str:
    if character == "\t":
        return " " * (TAB - column % TAB)
    if character < " ":
        return chr(0x2400 + ord(character))
    return "\ufffd" if category(character) in ("Cc", "Cf", "Cs") else character


def _width(character: str) -> int:
    """Cells of one character that is not ASCII."""
    if combining(character) or category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1

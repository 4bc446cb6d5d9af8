"""What a string means: escapes resolved, text blocks dedented, and where each character came from.

The offsets let a finding inside a prompt point at its place in the `.mas` file.
"""

from __future__ import annotations

import re

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.source import Span

_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|([\s\S]))")
_SIMPLE = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def quoted(raw: str, start: int, file: str, report: Report) -> tuple[str, tuple[int, ...]]:
    """The value and offsets of what stands between two `"`, from offset `start` of `file` on."""
    if "\\" not in raw:
        return raw, tuple(range(start, start + len(raw) + 1))
    value: list[str] = []
    offsets: list[int] = []
    position = 0
    for match in _ESCAPE.finditer(raw):
        value.append(raw[position : match.start()])
        offsets.extend(range(start + position, start + match.start() + 1))
        value.append(_escape(match, Span(file, start + match.start(), start + match.end()), report))
        position = match.end()
    value.append(raw[position:])
    offsets.extend(range(start + position, start + len(raw) + 1))
    return "".join(value), tuple(offsets)


def _escape(match: re.Match[str], span: Span, report: Report) -> str:
    """The one character that an escape stands for."""
    digits, letter = match.groups()
    if letter in _SIMPLE:
        return _SIMPLE[letter]
    if digits and (code := int(digits, 16)) <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
        return chr(code)
    message = f"`{match.group()}` is no Unicode character" if digits else f"unknown escape `\\{letter}`"
    report.add("E0105", message, span, notes=('escapes are `\\n`, `\\t`, `\\"`, `\\\\` and `\\u{1F600}`',))
    return "\ufffd"


def block(raw: str, start: int) -> tuple[str, tuple[int, ...]]:
    r"""The value and offsets of what stands between two `\"""`: without its first line break and common indentation.

    What stands on the opening line keeps its spaces and does not count for the indentation; a line of blanks becomes empty.
    """
    lines = raw.split("\n")
    position = start
    kept: list[tuple[str, int]] = []  # a line of the value and its offset
    margin = _margin(lines[1:])
    for number, line in enumerate(lines):
        if number > 0:
            cut = margin if line.strip() else len(line)
            kept.append((line[cut:], position + cut))
        elif line.strip() or len(lines) == 1:
            kept.append((line, position))
        position += len(line) + 1
    offsets: list[int] = []
    for line, offset in kept:
        offsets.extend(range(offset, offset + len(line) + 1))
    return "\n".join(line for line, _ in kept), tuple(offsets)


def _margin(lines: list[str]) -> int:
    """How many leading blanks all lines share that hold anything else."""
    margin: str | None = None
    for line in lines:
        if not line.strip():
            continue
        blanks = line[: len(line) - len(line.lstrip(" \t"))]
        if margin is None:
            margin = blanks
        while not blanks.startswith(margin):
            margin = margin[:-1]
    return len(margin or "")


def reindented(raw: str, indent: str, step: str) -> str:
    r"""A text block, quotes included, moved so that it stands `step` further in than `indent`, with the same value.

    One that begins on the line of its quotes stays as it is.
    """
    first, *lines = raw[3:-3].split("\n")
    if first.strip() or not lines:
        return raw
    margin = _margin(lines)
    moved = [f"{indent}{step}{line[margin:]}" if line.strip() else "" for line in lines]
    if not lines[-1].strip():
        moved[-1] = indent
    return '"""\n' + "\n".join(moved) + '"""'

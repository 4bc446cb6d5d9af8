"""Findings as text: what stands below what, in files, lines and cells."""

from __future__ import annotations

import re

import pytest

from drmas_dsl.diagnostics.diagnostic import Diagnostic, Edit, Help, Label
from drmas_dsl.diagnostics.text import MAX_WIDTH, render_text, summary
from drmas_dsl.syntax.source import Source, Span

MAIN = Source("main.mas", "system demo\nflow {\n  Solvr\n  return Solver.answer\n}\n")
OTHER = Source("lib/team.mas", "\n\nagent Solver {}\n")
SOURCES = {source.file: source for source in (MAIN, OTHER)}


def span(source: Source, text: str) -> Span:
    start = source.text.index(text)
    return Span(source.file, start, start + len(text))


def test_a_finding_with_everything() -> None:
    finding = Diagnostic(
        "E0201",
        "error",
        "no agent is called `Solvr`",
        span(MAIN, "Solvr"),
        labels=(Label(span(MAIN, "flow"), "in this flow"), Label(span(OTHER, "Solver"), "declared here")),
        notes=("names are compared letter by letter\nin every file",),
        help=Help("did you mean `Solver`?", (Edit(span(MAIN, "Solvr"), "Solver"),)),
    )
    assert (
        render_text([finding], SOURCES)
        == """\
error[E0201]: no agent is called `Solvr`
 --> main.mas:3:3
  |
2 | flow {
  | ---- in this flow
3 |   Solvr
  |   ^^^^^
 ::: lib/team.mas:3:7
  |
3 | agent Solver {}
  |       ------ declared here
  |
  = note: names are compared letter by letter
          in every file
  = help: did you mean `Solver`?
3 -   Solvr
3 +   Solver

"""
    )


def test_lines_between_are_left_out() -> None:
    source = Source("x", "a\n" * 120)
    finding = Diagnostic("E0101", "error", "m", Span("x", 200, 201), (Label(Span("x", 0, 1), "first"),))
    lines = render_text([finding], {"x": source}).splitlines()
    assert lines[2:] == ["    |", "  1 | a", "    | - first", "...", "101 | a", "    | ^", ""]


@pytest.mark.parametrize(
    ("line", "mark", "drawn", "left", "width"),
    [
        ("\tx = 1", "x", "    x = 1", 4, 1),
        ("ab\tx", "x", "ab  x", 4, 1),
        ("漢字 = x", "x", "漢字 = x", 7, 1),
        ("a = 漢字", "漢字", "a = 漢字", 4, 4),
        ("e\u0301 x", "x", "e\u0301 x", 2, 1),
        ("a\0b x", "x", "a\u2400b x", 4, 1),
        ("a\u202eb x", "x", "a\ufffdb x", 4, 1),
    ],
)
def test_marks_stand_below_what_they_mark(line: str, mark: str, drawn: str, left: int, width: int) -> None:
    source = Source("x", f"first\n{line}\nlast")
    finding = Diagnostic(
        "E0101",
        "error",
        "m",
        span(source, mark) if mark != "x" else Span("x", 6 + line.rindex("x"), 7 + line.rindex("x")),
    )
    lines = render_text([finding], {"x": source}).splitlines()
    assert lines[3] == f"2 | {drawn}"
    assert lines[4] == f"  | {' ' * left}{'^' * width}"


def test_long_lines_are_cut_around_the_mark() -> None:
    source = Source("x", "a" * 5000 + "HERE" + "b" * 5000)
    shown, marks = render_text([Diagnostic("E0101", "error", "m", span(source, "HERE"))], {"x": source}).splitlines()[
        3:5
    ]
    assert len(shown) < MAX_WIDTH + 10
    at = marks.index("^")
    assert shown[at : at + 4] == "HERE"
    assert marks.count("^") == 4


def test_the_end_of_a_file_and_spans_over_lines_have_a_mark() -> None:
    source = Source("x", "ab\ncd")
    for start, end, marks in ((5, 5, "  |   ^"), (1, 4, "  |  ^"), (2, 2, "  |   ^")):
        assert (
            render_text([Diagnostic("E0101", "error", "m", Span("x", start, end))], {"x": source}).splitlines()[4]
            == marks
        )


def test_a_file_without_text_is_named() -> None:
    assert "--> gone.mas" in render_text([Diagnostic("E0701", "error", "m", Span("gone.mas", 3, 9))], {})


def test_colours_only_add_escapes() -> None:
    finding = Diagnostic(
        "W0201", "warning", "m", span(MAIN, "flow"), notes=("n",), help=Help("h", (Edit(span(MAIN, "flow"), "x"),))
    )
    plain = render_text([finding], SOURCES)
    colored = render_text([finding], SOURCES, color=True)
    assert "\x1b[1;33m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_summary() -> None:
    error = Diagnostic("E0101", "error", "m", span(MAIN, "flow"))
    warning = Diagnostic("W0201", "warning", "m", span(MAIN, "flow"))
    assert summary([]) == ""
    assert summary([error]) == "1 error"
    assert summary([error, warning, error]) == "2 errors, 1 warning"

"""The formatter: input and output as files, and what holds for every program: the same tree, every comment, and idempotence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from drmas_dsl.syntax.format import format_source, meaning
from drmas_dsl.syntax.parser import parse, parse_with_comments
from drmas_dsl.syntax.source import Source
from tests.syntax.programs import programs, spans_of

GOLDEN = sorted((Path(__file__).parent / "formatted").glob("*.in.mas"))


def formatted(text: str) -> str:
    result, found = format_source(Source("x", text))
    assert result is not None, found
    return result


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.removesuffix(".in.mas"))
def test_golden_files(path: Path) -> None:
    expected = path.with_name(path.name.replace(".in.", ".out.")).read_text(encoding="utf-8")
    assert formatted(path.read_text(encoding="utf-8")) == expected
    assert formatted(expected) == expected


@settings(max_examples=150, deadline=None, phases=[Phase.generate])
@given(programs)
def test_any_program_keeps_its_meaning_and_comments_and_is_formatted_once(text: str) -> None:
    tree, found, comments = parse_with_comments(Source("x", text))
    assert found == []
    for outer, inner in spans_of(tree):
        assert outer.start <= inner.start <= inner.end <= outer.end
    once = formatted(text)
    again, found, kept = parse_with_comments(Source("x", once))
    assert found == []
    assert meaning(again) == meaning(tree)
    assert [once[c.start : c.end] for c in kept] == [text[c.start : c.end].rstrip() for c in comments]
    assert formatted(once) == once


@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(programs)
def test_layout_is_tidy(text: str) -> None:
    lines = formatted(text).split("\n")
    assert lines.pop() == "", "the text ends with one line end"
    for before, line in zip(["", *lines], lines, strict=False):
        if '"""' not in text:
            assert line == line.rstrip()
            assert line or before, "two blank lines, or one at the start"
            assert "\t" not in line


def test_broken_text_is_not_formatted() -> None:
    text, found = format_source(Source("x", "agent A { x = }"))
    assert text is None
    assert [one.code for one in found] == ["E0101"]


def test_empty_files() -> None:
    assert formatted("") == ""
    assert formatted("\n\n# only\n\n\n# comments") == "# only\n\n# comments\n"


def test_long_files_take_linear_time() -> None:
    text = "flow {\n" + "  x = find( Solver.query )\n" * 5000 + "return x }"
    assert len(parse(Source("x", formatted(text)))[0].declarations) == 1

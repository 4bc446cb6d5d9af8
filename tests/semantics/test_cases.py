"""Every case file names in its head what the semantic stage must find in it: `# expect: CODE LINE:COLUMN` (or
`FILE:LINE:COLUMN`), and with which overrides: `# set: PATH=VALUE`. Nothing else may be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.semantics.resolve import resolve
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source

CASES = Path(__file__).parents[1] / "cases"
OURS = re.compile(r"(E0[23467]|W0[46]|fine_(everything|plugins))")
FILES = sorted(path for path in CASES.glob("*.mas") if OURS.match(path.name))


def found_in(path: Path) -> tuple[list[Diagnostic], dict[str, Source]]:
    source = Source(str(path), path.read_text(encoding="utf-8"))
    tree, syntax = parse(source)
    assert not syntax
    sources = {source.file: source}
    overrides = re.findall(r"^# set: (.*)$", source.text, re.MULTILINE)
    _, found = resolve(tree, sources, overrides)
    return found, sources


def place(finding: Diagnostic, sources: dict[str, Source], main: Path) -> str:
    line, column = sources[finding.span.file].position(finding.span.start)
    file = finding.span.file
    shown = file if file == "--set" else str(Path(file).relative_to(CASES))
    return f"{finding.code} {line}:{column}" if file == str(main) else f"{finding.code} {shown}:{line}:{column}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_finds_exactly_what_the_case_says(path: Path) -> None:
    found, sources = found_in(path)
    expected = sorted(re.findall(r"^# expect: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(place(finding, sources, path) for finding in found) == expected, "\n".join(
        f"{place(finding, sources, path)}: {finding.message}" for finding in found
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_edits_of_help_remove_the_finding(path: Path) -> None:
    """What a help offers as edits of the main file can be applied, and the finding is gone."""
    found, sources = found_in(path)
    for finding in found:
        edits = [] if finding.help is None else list(finding.help.edits)
        if not edits or any(edit.span.file != str(path) for edit in edits):
            continue
        text = sources[str(path)].text
        for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        source = Source(str(path), text)
        tree, syntax = parse(source)
        assert not syntax, (finding.message, text)
        _, left = resolve(tree, {source.file: source}, re.findall(r"^# set: (.*)$", text, re.MULTILINE))
        assert finding.message not in {other.message for other in left if other.span.start == finding.span.start}
        assert len(left) <= len(found)


def test_every_code_of_the_stage_has_a_case() -> None:
    codes = {code for code in CODES if OURS.match(code)}
    expected = {code for path in FILES for code in re.findall(r"# expect: (\w+)", path.read_text(encoding="utf-8"))}
    assert codes - expected == {"E0704"}  # a broken Python file stands in no case; see test_plugins

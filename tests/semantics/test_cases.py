"""Every case file names in its head what `check` must find in it: `# expect: CODE LINE:COLUMN` (or
`FILE:LINE:COLUMN`), and with which overrides: `# set: PATH=VALUE`. Nothing else may be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drmas_dsl.compiler import CheckResult, check
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.semantics.resolve import resolve
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source

CASES = Path(__file__).parents[1] / "cases"
OURS = re.compile(r"(E0[23467]|W0[46]|fine_)")
FILES = sorted(
    path
    for path in CASES.glob("*.mas")
    if OURS.match(path.name) and 'use "files/team.mas"' not in path.read_text(encoding="utf-8")
)


def checked(path: Path) -> CheckResult:
    return check(path, re.findall(r"^# set: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))


def place(finding: Diagnostic, result: CheckResult, main: Path) -> str:
    file = finding.span.file
    line, column = result.sources[file].position(finding.span.start)
    shown = file if file == "--set" else str(Path(file).relative_to(CASES))
    return f"{finding.code} {line}:{column}" if file == str(main) else f"{finding.code} {shown}:{line}:{column}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_finds_exactly_what_the_case_says(path: Path) -> None:
    result = checked(path)
    expected = sorted(re.findall(r"^# expect: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(place(finding, result, path) for finding in result.diagnostics) == expected, "\n".join(
        f"{place(finding, result, path)}: {finding.message}" for finding in result.diagnostics
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_edits_of_help_remove_the_finding(path: Path) -> None:
    """What a help offers as edits of the main file can be applied, and the finding is gone."""
    result = checked(path)
    for finding in result.diagnostics:
        edits = [] if finding.help is None else list(finding.help.edits)
        if not edits or any(edit.span.file != str(path) for edit in edits):
            continue
        text = result.sources[str(path)].text
        for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        source = Source(str(path), text)
        tree, syntax = parse(source)
        assert not syntax, (finding.message, text)
        _, left = resolve(tree, {source.file: source}, re.findall(r"^# set: (.*)$", text, re.MULTILINE))
        assert finding.message not in {other.message for other in left if other.span.start == finding.span.start}
        assert len(left) <= len(result.diagnostics)


def test_every_code_of_the_stage_has_a_case() -> None:
    codes = {code for code in CODES if OURS.match(code)}
    expected = {code for path in FILES for code in re.findall(r"# expect: (\w+)", path.read_text(encoding="utf-8"))}
    assert codes - expected == {"E0704"}  # a broken Python file stands in no case; see test_plugins

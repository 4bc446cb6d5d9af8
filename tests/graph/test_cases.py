"""Every case of the flow names in its head what `check` must find in it: `# expect: CODE LINE:COLUMN`. Nothing else may be
found, and what a help offers as edits makes the finding go away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drmas_dsl.compiler import CheckResult, check
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic

CASES = Path(__file__).parents[1] / "cases"
HERE = {path for path in CASES.glob("*.mas") if 'use "files/team.mas"' in path.read_text(encoding="utf-8")}
FILES = sorted(HERE | {path for path in CASES.glob("*.mas") if re.match(r"(E05|W05|W02)", path.name)})


def places(result: CheckResult) -> list[str]:
    return sorted(place(finding, result) for finding in result.diagnostics)


def place(finding: Diagnostic, result: CheckResult) -> str:
    line, column = result.sources[finding.span.file].position(finding.span.start)
    return f"{finding.code} {line}:{column}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_finds_exactly_what_the_case_says(path: Path) -> None:
    result = check(path)
    expected = sorted(re.findall(r"^# expect: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert places(result) == expected, [finding.message for finding in result.diagnostics]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_edits_make_the_finding_go_away(path: Path, tmp_path: Path) -> None:
    result = check(path)
    for number, finding in enumerate(result.diagnostics):
        if finding.help is None or not finding.help.edits:
            continue
        text = path.read_text(encoding="utf-8")
        for edit in sorted(finding.help.edits, key=lambda edit: edit.span.start, reverse=True):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        mended = tmp_path / f"{number}.mas"
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / "team.mas").write_text((CASES / "files" / "team.mas").read_text(encoding="utf-8"))
        mended.write_text(text, encoding="utf-8")
        again = check(mended)
        left = {(other.code, other.message) for other in again.diagnostics}
        assert (finding.code, finding.message) not in left
        assert not any(code.startswith("E01") for code, _ in left)


def test_every_code_of_the_flow_has_a_case() -> None:
    codes = {code for code in CODES if code.startswith(("E05", "W05", "W02"))}
    named = {code for path in FILES for code in re.findall(r"# expect: (\w+)", path.read_text(encoding="utf-8"))}
    assert codes - named == set()

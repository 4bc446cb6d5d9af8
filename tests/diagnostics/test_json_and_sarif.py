"""Findings for programs: the JSON contract, and what SARIF 2.1.0 demands of the parts that are used of it.

The parts were also checked once against the published schema, with every case under `tests/cases`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drmas_dsl.compiler import check
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic, Edit, Help, Label
from drmas_dsl.diagnostics.render import render
from drmas_dsl.syntax.source import Source, Span

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.mas"))
SOURCES = {"a b.mas": Source("a b.mas", "x = 漢字\ny = 2\n"), "--set": Source("--set", "rounds=9")}
FINDING = Diagnostic(
    "E0302",
    "error",
    "too large",
    Span("a b.mas", 4, 7),
    (Label(Span("--set", 7, 8), "given here"),),
    ("at most 8",),
    Help("write 8", (Edit(Span("a b.mas", 6, 7), "8"),)),
)


def test_json_is_what_was_promised() -> None:
    data = json.loads(render([FINDING], SOURCES, "json"))
    assert data == {
        "version": 1,
        "diagnostics": [
            {
                "code": "E0302",
                "severity": "error",
                "message": "too large",
                "file": "a b.mas",
                "line": 1,
                "column": 5,
                "end_line": 2,
                "end_column": 1,
                "notes": ["at most 8"],
                "help": {
                    "message": "write 8",
                    "edits": [{"file": "a b.mas", "line": 1, "column": 7, "end_line": 2, "end_column": 1, "text": "8"}],
                },
                "related": [
                    {"message": "given here", "file": "--set", "line": 1, "column": 8, "end_line": 1, "end_column": 9}
                ],
            }
        ],
    }  # fmt: skip


def test_no_help_is_null() -> None:
    bare = Diagnostic("E0101", "error", "m", Span("gone.mas", 5, 6))
    one = json.loads(render([bare], {}, "json"))["diagnostics"][0]
    assert one["help"] is None
    assert (one["notes"], one["related"]) == ([], [])
    assert (one["line"], one["column"]) == (1, 1)


def region_is_valid(region: dict[str, int]) -> bool:
    start = region["startLine"], region["startColumn"]
    return (1, 1) <= start <= (region["endLine"], region["endColumn"])


def location_is_valid(location: dict[str, Any]) -> bool:
    uri = location["artifactLocation"]["uri"]
    relative = not urlsplit(uri).scheme or uri.startswith("file:///")
    return relative and " " not in uri and uri.isascii() and region_is_valid(location["region"])


def valid(log: dict[str, Any]) -> None:
    """What the standard demands, as far as it is used here."""
    assert log["version"] == "2.1.0"
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "drmasc"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        places = [*result["locations"], *result.get("relatedLocations", [])]
        assert all(location_is_valid(place["physicalLocation"]) for place in places)
        assert [place["id"] for place in places[1:]] == list(range(len(places) - 1))
        for fix in result.get("fixes", []):
            assert fix["description"]["text"]
            for change in fix["artifactChanges"]:
                assert change["replacements"]
                assert all(region_is_valid(part["deletedRegion"]) for part in change["replacements"])
                assert all(isinstance(part["insertedContent"]["text"], str) for part in change["replacements"])


def test_sarif_of_a_finding_with_everything() -> None:
    log = json.loads(render([FINDING, FINDING], SOURCES, "sarif"))
    valid(log)
    result = log["runs"][0]["results"][0]
    assert result["message"]["text"] == "too large\nnote: at most 8\nhelp: write 8"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.mas"
    assert result["fixes"][0]["artifactChanges"][0]["replacements"][0]["deletedRegion"]["startColumn"] == 7
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["E0302"]


@pytest.mark.parametrize("path", CASES[::7], ids=lambda path: path.stem)
def test_every_format_writes_the_findings_of_real_systems(path: Path) -> None:
    result = check(path)
    valid(json.loads(render(result.diagnostics, result.sources, "sarif")))
    data = json.loads(render(result.diagnostics, result.sources, "json"))
    assert [one["code"] for one in data["diagnostics"]] == [one.code for one in result.diagnostics]
    assert all(one["code"] in CODES for one in data["diagnostics"])
    text = render(result.diagnostics, result.sources, "text")
    assert all(one.message in text for one in result.diagnostics)

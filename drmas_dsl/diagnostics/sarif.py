"""Findings as SARIF 2.1.0, the format that code hosts and CI services read.

Every code that occurs is a rule, help with edits is a fix, labels are related locations. Columns count Unicode characters,
from 1, as SARIF's `unicodeCodePoints`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from drmas_dsl import __version__
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic, Edit
from drmas_dsl.diagnostics.json import place
from drmas_dsl.syntax.source import Source, Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> str:
    """The findings as one SARIF log with one run, a line end after it."""
    rules = sorted({diagnostic.code for diagnostic in diagnostics})
    driver = {"name": "drmasc", "version": __version__, "rules": [_rule(code) for code in rules]}
    results = [_result(diagnostic, rules, sources) for diagnostic in diagnostics]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> dict[str, Any]:
    known = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "help": {"text": f"drmasc explain {code}"},
        "defaultConfiguration": {"level": known.severity},
    }


def _result(diagnostic: Diagnostic, rules: list[str], sources: Mapping[str, Source]) -> dict[str, Any]:
    help = diagnostic.help
    lines = [diagnostic.message, *(f"note: {note}" for note in diagnostic.notes)]
    if help:
        lines.append(f"help: {help.message}")
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rules.index(diagnostic.code),
        "level": diagnostic.severity,
        "message": {"text": "\n".join(lines)},
        "locations": [{"physicalLocation": _location(diagnostic.span, sources)}],
    }
    if diagnostic.labels:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": label.message}, "physicalLocation": _location(label.span, sources)}
            for number, label in enumerate(diagnostic.labels)
        ]
    edits = [edit for edit in help.edits if edit.span.file in sources] if help else []
    if help and edits:
        result["fixes"] = [{"description": {"text": help.message}, "artifactChanges": _changes(edits, sources)}]
    return result


def _location(span: Span, sources: Mapping[str, Source]) -> dict[str, Any]:
    return {"artifactLocation": {"uri": _uri(span.file)}, "region": _region(span, sources)}


def _region(span: Span, sources: Mapping[str, Source]) -> dict[str, int]:
    where = place(span, sources)
    names = {"line": "startLine", "column": "startColumn", "end_line": "endLine", "end_column": "endColumn"}
    return {sarif: where[own] for own, sarif in names.items()}


def _changes(edits: Sequence[Edit], sources: Mapping[str, Source]) -> list[dict[str, Any]]:
    files = list(dict.fromkeys(edit.span.file for edit in edits))
    return [
        {
            "artifactLocation": {"uri": _uri(file)},
            "replacements": [
                {"deletedRegion": _region(edit.span, sources), "insertedContent": {"text": edit.text}}
                for edit in edits
                if edit.span.file == file
            ],
        }
        for file in files
    ]


def _uri(file: str) -> str:
    """A path as a URI reference: absolute paths with their scheme, others relative."""
    path = quote(file.replace(os.sep, "/"))
    return f"file://{path}" if os.path.isabs(file) else path

"""Findings as JSON for programs: `{"version": 1, "diagnostics": […]}`, places from 1 in characters, ends exclusive.

The layout is a promise to editors and scripts: fields may be added, none changes its meaning within a version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.syntax.source import Source, Span

VERSION = 1


def render_json(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> str:
    """The findings as one JSON text, a line end after it."""
    data = {"version": VERSION, "diagnostics": [_finding(one, sources) for one in diagnostics]}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def place(span: Span, sources: Mapping[str, Source]) -> dict[str, Any]:
    """A span as file, lines and columns; a file without text gives 1:1."""
    source = sources.get(span.file) or Source(span.file, "")
    line, column = source.position(span.start)
    end_line, end_column = source.position(span.end)
    return {"file": span.file, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _finding(diagnostic: Diagnostic, sources: Mapping[str, Source]) -> dict[str, Any]:
    help = diagnostic.help
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        **place(diagnostic.span, sources),
        "notes": list(diagnostic.notes),
        "help": help
        and {
            "message": help.message,
            "edits": [{**place(edit.span, sources), "text": edit.text} for edit in help.edits],
        },
        "related": [{"message": label.message, **place(label.span, sources)} for label in diagnostic.labels],
    }

"""Collects findings while a stage runs."""

from __future__ import annotations

from collections.abc import Iterable

from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic, Help, Label
from drmas_dsl.syntax.source import Span


class Report:
    """A growing list of findings; the severity comes from the code."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def add(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: Help | None = None,
    ) -> None:
        """Add a finding with a code of the table."""
        severity = CODES[code].severity
        self.diagnostics.append(Diagnostic(code, severity, message, span, tuple(labels), tuple(notes), help))

    @property
    def failed(self) -> bool:
        """Whether there is an error among the findings."""
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

"""The one type of every finding.

A diagnostic stands alone: a stable code, a message in the user's terms, the place, other places that matter
(labels), facts (notes) and a way out (help, with edits that can be applied). Renderers only read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drmas_dsl.syntax.source import Span

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Label:
    """Another place that matters, with what it shows."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Help:
    """How to go on; `edits`, applied together, do it."""

    message: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is a key of `codes.CODES`, which also gives the severity."""

    code: str
    severity: Severity
    message: str
    span: Span
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: Help | None = None

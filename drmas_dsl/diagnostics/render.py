"""One way in to the renderers: findings and the texts that they point into, in the format that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.syntax.source import Source

Format = Literal["text", "json", "sarif"]
FORMATS: tuple[Format, ...] = ("text", "json", "sarif")


def render(
    diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source], format: Format = "text", color: bool = False
) -> str:
    """The findings in a format; text without findings is empty, JSON and SARIF are always whole documents."""
    if format == "json":
        from drmas_dsl.diagnostics.json import render_json

        return render_json(diagnostics, sources)
    if format == "sarif":
        from drmas_dsl.diagnostics.sarif import render_sarif

        return render_sarif(diagnostics, sources)
    from drmas_dsl.diagnostics.text import render_text

    return render_text(diagnostics, sources, color)

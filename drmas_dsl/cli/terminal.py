"""What the terminal can show, and findings on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.text import render_text, summary
from drmas_dsl.syntax.source import Source


def colored(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: a terminal, unless `NO_COLOR` is set or it is a dumb one."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_findings(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> None:
    """Findings as text, and their count, on the standard error."""
    sys.stderr.write(render_text(diagnostics, sources, colored(sys.stderr)))
    print(summary(diagnostics), file=sys.stderr)

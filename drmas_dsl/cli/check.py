"""`drmasc check FILE…`: every mistake in `.mas` files, as text, JSON or SARIF."""

from __future__ import annotations

import argparse
import sys

from drmas_dsl.cli.options import add_set, write_out
from drmas_dsl.cli.terminal import colored
from drmas_dsl.compiler import check
from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.render import FORMATS, render
from drmas_dsl.syntax.source import Source


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help=".mas files")
    add_set(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how findings are written (default: text)")


def run(arguments: argparse.Namespace) -> int:
    """Check and print; 1 where there is an error. The count of findings goes to the standard error."""
    found: dict[Diagnostic, None] = {}  # a file that several use is told of once
    sources: dict[str, Source] = {}
    for file in dict.fromkeys(arguments.files):
        result = check(file, arguments.overrides)
        found |= dict.fromkeys(result.diagnostics)
        sources |= result.sources
    diagnostics = list(found)
    write_out(render(diagnostics, sources, arguments.format, colored(sys.stdout)), None)
    if arguments.format == "text":
        from drmas_dsl.diagnostics.text import summary

        print(summary(diagnostics) or "no findings", file=sys.stderr)
    return int(any(diagnostic.severity == "error" for diagnostic in diagnostics))

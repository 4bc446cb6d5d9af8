"""`drmasc check FILE…`: every mistake in `.mas` files, as text, JSON or SARIF."""

from __future__ import annotations

import argparse
import sys

from drmas_dsl.cli.options import add_set, write_out
from drmas_dsl.cli.terminal import colored
from drmas_dsl.compiler import check
from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.render import FORMATS, render
from drmas_dsl.errors import UserError
from drmas_dsl.syntax.source import Source


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help=".mas files")
    add_set(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how findings are written (default: text)")
    parser.add_argument("--budget", action="store_true", help="show how long each agent's prompt can get (text only)")


def run(arguments: argparse.Namespace) -> int:
    """Check and print; 1 where there is an error. Counts and files that cannot be read go to the standard error."""
    if arguments.budget and arguments.format != "text":
        raise UserError("--budget is a table for people", "leave out --format, or --budget")
    found: dict[Diagnostic, None] = {}  # a file that several use is told of once
    sources: dict[str, Source] = {}
    tables: list[str] = []
    unread = False
    for file in dict.fromkeys(arguments.files):
        try:
            result = check(file, arguments.overrides)
        except UserError as error:
            print(f"error: {error.message}", file=sys.stderr)
            unread = True
            continue
        found |= dict.fromkeys(result.diagnostics)
        sources |= result.sources
        if arguments.budget and result.budgets:
            from drmas_dsl.views.lengths import draw

            tables.append(f"{file}\n{draw(result.budgets)}")
    diagnostics = list(found)
    write_out(render(diagnostics, sources, arguments.format, colored(sys.stdout)), None)
    write_out("\n".join(tables), None)
    if arguments.format == "text":
        from drmas_dsl.diagnostics.text import summary

        print(summary(diagnostics) or "no findings", file=sys.stderr)
    return int(unread or any(diagnostic.severity == "error" for diagnostic in diagnostics))

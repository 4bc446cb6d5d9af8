"""`drmasc compile FILE`: lower a system to its execution graph and write it as JSON."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from drmas_dsl.cli.options import add_set, write_out
from drmas_dsl.cli.terminal import print_findings
from drmas_dsl.compiler import check
from drmas_dsl.errors import CompileError
from drmas_dsl.graph.serialize import to_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="a .mas file")
    add_set(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="write here instead of the standard output")


def run(arguments: argparse.Namespace) -> int:
    """Compile and write. Paths in the JSON start from the folder that it is written to (or the current one)."""
    result = check(arguments.file, arguments.overrides)
    if result.graph is None:
        raise CompileError(result.diagnostics, result.sources)
    if result.diagnostics:
        print_findings(result.diagnostics, result.sources)
    folder = os.path.dirname(os.path.abspath(arguments.output or "here"))
    write_out(to_json(result.graph, folder), arguments.output)
    return 0

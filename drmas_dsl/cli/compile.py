"""`drmasc compile FILE`: lower a system to its execution graph and write it as JSON."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from drmas_dsl.cli.options import add_set, write_out
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.serialize import to_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="a .mas file")
    add_set(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="write here instead of the standard output")


def run(arguments: argparse.Namespace) -> int:
    """Compile and write. Paths in the JSON start from the folder that it is written to (or the current one)."""
    graph = compile_file(arguments.file, arguments.overrides)
    folder = os.path.dirname(os.path.abspath(arguments.output or "here"))
    write_out(to_json(graph, folder), arguments.output)
    return 0

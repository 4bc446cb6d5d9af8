"""`drmasc graph FILE`: draw a system as text, Mermaid, DOT or SVG."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from drmas_dsl.cli.options import add_file, add_set, write_out
from drmas_dsl.compiler import load_graph

FORMATS = ("text", "mermaid", "dot", "svg")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_file(parser)
    add_set(parser)
    parser.add_argument("--format", choices=FORMATS, help="how to draw (default: by the ending of OUT, or text)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="write here instead of the standard output")
    parser.add_argument("--settings", action="store_true", help="show every agent's hyper-parameters too")


def run(arguments: argparse.Namespace) -> int:
    """Draw and write."""
    graph = load_graph(arguments.file, arguments.overrides)
    endings = {".mmd": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg"}
    ending = endings.get(arguments.output.suffix, "text") if arguments.output else "text"
    view = importlib.import_module(f"drmas_dsl.views.{arguments.format or ending}")
    write_out(view.draw(graph, arguments.settings), arguments.output)
    return 0

"""`drmasc eval FILE`: how often a system solves its test questions, and what each agent costs."""

from __future__ import annotations

import argparse

from drmas_dsl.cli.options import add_file, add_run, add_set, require_runtime
from drmas_dsl.compiler import load_graph


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_file(parser)
    add_set(parser)
    add_run(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="tables, or JSON")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print."""
    graph = load_graph(arguments.file, arguments.overrides)
    require_runtime()
    from runtime.commands import evaluate

    return evaluate(graph, arguments.run, arguments.checkpoint, arguments.format)

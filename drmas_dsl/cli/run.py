"""`drmasc run FILE --input '{"question": …}'`: one question through a system, its trajectory printed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from drmas_dsl.cli.options import add_file, add_run, add_set, require_runtime
from drmas_dsl.compiler import load_graph
from drmas_dsl.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_file(parser)
    add_set(parser)
    parser.add_argument("--input", required=True, metavar="JSON", help="the question: an object of columns, or @FILE")
    add_run(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people, or JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run and print; the exit code is 1 where the trajectory failed."""
    graph = load_graph(arguments.file, arguments.overrides)
    row = _row(arguments.input)
    require_runtime()
    from runtime.commands import run_one

    return run_one(graph, row, arguments.run, arguments.checkpoint, arguments.format)


def _row(text: str) -> dict[str, object]:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot read {text[1:]}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{text[1:]} is not UTF-8 text", "it must hold one JSON object of columns") from error
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"--input is no JSON: {error}", """give an object, e.g. --input '{"question": "1 + 1?"}'"""
        ) from error
    if not isinstance(row, dict):
        raise UserError("--input must be an object of columns", """e.g. --input '{"question": "1 + 1?"}'""")
    return row

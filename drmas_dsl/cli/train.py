"""`drmasc train FILE`: roll out and train a system, into a run folder."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from drmas_dsl.cli.options import add_file, add_set, require_runtime
from drmas_dsl.compiler import load_graph
from drmas_dsl.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_file(parser)
    add_set(parser)
    parser.add_argument("--run", type=Path, metavar="DIR", help="the run folder (default: runs/SYSTEM-DATE-TIME)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the run folder")


def run(arguments: argparse.Namespace) -> int:
    """Train; the exit code is 130 where the user stopped it."""
    if arguments.resume and arguments.run is None:
        raise UserError("--resume needs the run to go on with", "name its folder with --run")
    graph = load_graph(arguments.file, arguments.overrides)
    require_runtime()
    from runtime.commands import train

    name = graph.graph["system"].name
    folder = arguments.run or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    return train(graph, Path(arguments.file), arguments.overrides, folder, arguments.resume)

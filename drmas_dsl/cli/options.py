"""Options that several commands share, so that they are spelled and mean the same everywhere."""

from __future__ import annotations

import argparse
import io
import sys
from importlib.util import find_spec
from pathlib import Path

from drmas_dsl.errors import UserError

RUNTIME = ("torch", "transformers", "ray")


def add_file(parser: argparse.ArgumentParser) -> None:
    """The system: a `.mas` file or its compiled JSON."""
    parser.add_argument("file", metavar="FILE", help="a .mas file, or its compiled .json")


def add_set(parser: argparse.ArgumentParser) -> None:
    """Overrides of params and settings."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="override a param or a setting, e.g. --set rounds=3 --set Solver.sampling.temperature=0.7",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Whose weights to use: a run, and which of its checkpoints."""
    parser.add_argument("--run", type=Path, metavar="DIR", help="use a checkpoint of this run")
    parser.add_argument("--checkpoint", metavar="last|best|STEP", help="which one (default: last)")


def require_runtime() -> None:
    """Fail in words where the packages that run systems are not installed.

    Raises:
        UserError: with the command that installs them.
    """
    missing = [package for package in RUNTIME if find_spec(package) is None]
    if missing:
        raise UserError(f"this command needs {', '.join(missing)}", "install them with: pip install 'drmasc[train]'")


def write_out(text: str, path: Path | None) -> None:
    """Write a command's result to a file, or to the standard output in UTF-8.

    Raises:
        UserError: the file cannot be written.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(text)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write `{path}`: {error.strerror}") from error

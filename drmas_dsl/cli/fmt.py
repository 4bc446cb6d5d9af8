"""`drmasc fmt FILE…`: the one style of `.mas` files, in place, as a check, as a diff, or from standard input to standard output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from drmas_dsl.cli.options import write_out
from drmas_dsl.cli.terminal import print_findings
from drmas_dsl.errors import UserError
from drmas_dsl.syntax.format import format_source
from drmas_dsl.syntax.parser import decode, read_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help=".mas files, or - for standard input")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a file would change")
    parser.add_argument("--diff", action="store_true", help="write nothing; print what would change")


def run(arguments: argparse.Namespace) -> int:
    """Format each file; 1 where one has syntax errors, or under --check or --diff would change."""
    return max([_format(file, arguments) for file in dict.fromkeys(arguments.files)])


def _format(file: str, arguments: argparse.Namespace) -> int:
    data = sys.stdin.buffer.read() if file == "-" else read_bytes(file)
    source, found = decode("<stdin>" if file == "-" else file, data)
    text, syntax = (None, found) if found else format_source(source)
    if text is None:
        print_findings(syntax, {source.file: source})
        return 1
    changed = text.encode() != data
    if arguments.diff and changed:
        write_out(_diff(source.file, source.text, text), None)
    if arguments.check and changed:
        print(f"would reformat {source.file}", file=sys.stderr)
    if arguments.check or arguments.diff:
        return int(changed)
    if file == "-":
        write_out(text, None)
    elif changed:
        _write(file, text)
        print(f"reformatted {file}", file=sys.stderr)
    return 0


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"cannot write `{file}`: {error.strerror}") from error


def _diff(file: str, before: str, after: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), file, f"{file} (formatted)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

"""`drmasc`: finds the command's module, runs it, and turns a `UserError` into a message and an exit code.

Every module of a command has `configure(parser)` and `run(arguments) -> exit code`. Only the module of the command that was
asked for is imported, so that `check` stays fast.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import sys
from typing import NoReturn

from drmas_dsl import __version__
from drmas_dsl.errors import CompileError, UserError

COMMANDS = {
    "check": "find every mistake in .mas files",
    "compile": "lower a system to its execution graph, as JSON",
    "graph": "draw a system",
    "train": "train a system",
    "eval": "evaluate a system or a checkpoint of it",
    "run": "run one question through a system and print the trajectory",
    "serve-retriever": "serve a corpus to the tool http_retriever",
    "advantages": "recompute advantages of recorded turns",
    "fmt": "format .mas files",
    "explain": "explain a finding's code or a setting",
}

# Commands that end before collecting garbage would pay.
BRIEF = ("check", "compile", "graph", "fmt", "explain")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code (0 fine, 1 the input is at fault, 2 bad usage, 130 interrupted)."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="drmasc", description="Declare, check, draw and train systems of LLM agents.")
    parser.add_argument("--version", action="version", version=f"drmasc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = _asked(argv)
    try:
        for name, summary in COMMANDS.items() if asked not in COMMANDS else [(asked, COMMANDS[asked])]:
            command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
            if name == asked:
                module = importlib.import_module(f"drmas_dsl.cli.{name.replace('-', '_')}")
                module.configure(command)
                command.set_defaults(execute=module.run)
        arguments = parser.parse_args(argv)
        code: int = arguments.execute(arguments)
        return code
    except CompileError as error:
        from drmas_dsl.cli.terminal import print_findings

        print_findings(error.diagnostics, error.sources)
        return 1
    except UserError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.help:
            print(f" help: {error.help}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has left, as `head` does; nothing more can be flushed to it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def program() -> NoReturn:
    """The process `drmasc`. A brief command neither collects garbage nor takes its memory apart at the end, which together would
    cost it a third of its time."""
    brief = _asked(sys.argv[1:]) in BRIEF
    if brief:
        gc.disable()
    code = main()
    if not brief:
        sys.exit(code)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _asked(argv: list[str]) -> str | None:
    """The command among the arguments."""
    return next((word for word in argv if not word.startswith("-")), None)


if __name__ == "__main__":
    program()

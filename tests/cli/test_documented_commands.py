"""Every command line that the documentation shows is one that works: its words are known, and its system compiles."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from drmas_dsl.cli.main import COMMANDS
from drmas_dsl.compiler import load_graph
from drmas_dsl.errors import CompileError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "graphs" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "graphs").glob("*.mas"))
PLACEHOLDERS = {"FILE", "FILE…", "RUN", "DIR", "CORPUS", "CODE"}


def lines_of(page: Path) -> list[str]:
    """The command lines in a page's code blocks, comments and inline code."""
    text = re.sub(r"\\\n[# ]*", "", page.read_text(encoding="utf-8"))
    blocks = re.findall(r"^(?:# {2,}|    )?(drmasc .*)$", text, re.MULTILINE)
    inline = re.findall(r"`(drmasc [^`]+)`", text)
    return [line.split("  # ")[0].strip() for line in [*blocks, *inline]]


LINES = [(page, line) for page in PAGES for line in lines_of(page)]


def arguments_of(line: str) -> argparse.Namespace:
    words = shlex.split(line.replace("[", "").replace("]", ""))[1:]
    assert words[0] in COMMANDS, line
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(f"drmas_dsl.cli.{words[0].replace('-', '_')}").configure(parser)
    return parser.parse_args(words[1:])


def test_there_are_such_lines():
    assert len(LINES) > 15
    assert {line.split()[1] for _, line in LINES} == set(COMMANDS)


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page.name}: {line}"[:60] for page, line in LINES])
def test_a_documented_command_is_understood_and_its_system_compiles(page, line, monkeypatch):
    if len(line.split()) == 2:  # the command by its name alone
        assert line.split()[1] in COMMANDS
        return
    given = arguments_of(line)
    file = getattr(given, "file", None)
    if file is None or file in PLACEHOLDERS:
        return
    monkeypatch.chdir(ROOT if file.startswith("graphs/") else ROOT / "graphs")
    try:
        load_graph(file, getattr(given, "overrides", []))
    except CompileError as error:  # the reader's own files are not here
        assert {finding.code for finding in error.diagnostics} <= {"E0701"}, error

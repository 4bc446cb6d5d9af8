"""A small system in a folder of its own, and what the semantic stage says of it."""

from __future__ import annotations

from pathlib import Path

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.semantics.resolve import resolve
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source

SYSTEM = """system demo
model m { weights = tiny() }
agent A {
  model  = m
  prompt = "{{ task.question }}"
  output answer  = boxed()
  output verdict = choice("yes", "no")
  output score   = number()
}
flow { A  return A.answer }
task { reward = exact_match(result, task.answer) }
"""


def check(folder: Path, text: str, *overrides: str, partial: bool = False) -> tuple[Checked | None, list[Diagnostic]]:
    """Write the text as a main file, and resolve it."""
    path = folder / "main.mas"
    path.write_text(text, encoding="utf-8")
    source = Source(str(path), text)
    tree, syntax = parse(source)
    assert not syntax or partial, syntax
    return resolve(tree, {source.file: source}, overrides, partial)


def checked(folder: Path, text: str, *overrides: str) -> Checked:
    """The system of a text in which nothing is wrong."""
    found, findings = check(folder, text, *overrides)
    assert not findings, [finding.message for finding in findings]
    assert found is not None
    return found


def codes(folder: Path, text: str, *overrides: str) -> list[str]:
    """The codes of what is found, in order."""
    return [finding.code for finding in check(folder, text, *overrides)[1]]

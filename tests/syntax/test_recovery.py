"""Every `E01` case file says in its head what the parser must find in it, `# expect: CODE LINE:COLUMN`, and nothing else may be
found: one mistake, one finding. What is broken on purpose here is broken by hand, in files of one's own below."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.parser import decode, parse, parse_expression
from drmas_dsl.syntax.recovery import MAX_ERRORS
from drmas_dsl.syntax.source import Source

FILES = sorted((Path(__file__).parents[1] / "cases").glob("E01*.mas"))


def read(path: Path) -> Source:
    return Source(path.name, path.read_text(encoding="utf-8"))


def place(finding: Diagnostic, source: Source) -> str:
    line, column = source.position(finding.span.start)
    return f"{finding.code} {line}:{column}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_finds_exactly_what_the_case_says(path: Path) -> None:
    source = read(path)
    _, found = parse(source)
    assert [place(one, source) for one in found] == re.findall(r"^# expect: (.*)$", source.text, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_edits_of_help_mend_what_they_are_for(path: Path) -> None:
    source = read(path)
    _, found = parse(source)
    for finding in found:
        if finding.help is None or not finding.help.edits:
            continue
        text = source.text
        for edit in sorted(finding.help.edits, key=lambda edit: edit.span.start, reverse=True):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        _, left = parse(Source(path.name, text))
        assert len(left) < len(found), finding.message


def names(tree: ast.File) -> list[str]:
    return [getattr(getattr(one, "name", None), "name", type(one).__name__) for one in tree.declarations]


def test_five_mistakes_leave_every_declaration() -> None:
    tree, found = parse(Source("x", FIVE))
    assert len(found) == 5
    named = ["demo", "good", "Broken", "Fine", "rounds", "Worse"]
    assert names(tree) == [*named, "FlowDecl", "SectionDecl", "SectionDecl", "SectionDecl"]
    worse = tree.declarations[5]
    assert isinstance(worse, ast.EntityDecl)
    assert [item.name.name for item in worse.items] == ["model", "penalty"]


FIVE = """
system demo
model good { weights = tiny() }
agent Broken { model good }
agent Fine { model = good, prompt = "x" }
param rounds int = 2
agent Worse {
  model = good
  role = 'a sailor'
  penalty = 0.1
}
flow {
  loop 2 {
    Fine
    if Fine.text = "x" { break }
  }
  return none
}
task { reward = 1 }
train steps = 3 }
eval { samples = 1 }
"""


def test_the_bracket_that_is_put_in_leads_to_the_whole_tree() -> None:
    tree, found = parse(Source("x", "agent A {\n  loss { kl = 1\n  role = f(1\n  model = m\n}\ntrain { steps = 1 }"))
    assert [one.code for one in found] == ["E0102", "E0102"]
    agent = tree.declarations[0]
    assert isinstance(agent, ast.EntityDecl)
    assert [item.name.name for item in agent.items] == ["loss", "role", "model"]
    assert names(tree) == ["A", "SectionDecl"]


@pytest.mark.parametrize("name", ["E0101_end_of_file", "E0101_flow", "E0101_names_and_values"])
def test_messages_say_what_was_expected(name: str) -> None:
    source = read(next(path for path in FILES if path.stem == name))
    messages = [one.message for one in parse(source)[1]]
    assert all("expected" in message or "neither" in message for message in messages)
    assert not any(re.search(r"[A-Z]{3}|\$|__", message) for message in messages), "a terminal's name shows"


def test_an_expression_is_read_whole_or_not_at_all() -> None:
    value, found = parse_expression(Source("--set", "0.5 * 2"))
    assert isinstance(value, ast.Binary)
    assert found == []
    for text in ("", "1 2", "a b", "(1", "1)", "{", '"x', "f(a b)"):
        value, found = parse_expression(Source("--set", text))
        assert value is None, text
        assert found, text
        assert {one.span.file for one in found} == {"--set"}


def test_bytes_that_are_not_utf8_are_reported_at_their_place() -> None:
    source, found = decode("x", b"\xef\xbb\xbfsystem a\r\n  # \xc3\xa4 \xff\xfe\n")
    assert [place(one, source) for one in found] == ["E0106 2:7"]
    assert "0xff" in found[0].message
    assert decode("x", "\ufeffsystem a\r\n# ä".encode()) == (Source("x", "system a\n# ä"), [])


def test_no_more_findings_than_anybody_reads() -> None:
    _, found = parse(Source("x", 'agent A { role = "x\n}\n' * 1000))
    assert len(found) == MAX_ERRORS
    assert found[-1].notes[-1] == "950 more findings of this kind are not shown"


def test_every_code_of_the_stage_has_a_case() -> None:
    expected = {code for path in FILES for code in re.findall(r"# expect: (\w+)", path.read_text(encoding="utf-8"))}
    assert {code for code in CODES if code.startswith("E01")} - expected == {"E0106"}, "E0106 has its own test"

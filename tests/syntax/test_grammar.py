"""The grammar itself: free of conflicts, all terminals named, its tables fresh, and our loop reads what Lark's parser reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lark import Lark, UnexpectedInput

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax import lexer, table
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("graphs/**/*.mas"), *ROOT.glob("tests/**/*.mas")])


@pytest.fixture(scope="module")
def lark() -> Lark:
    """Strict: any conflict of rules or collision of terminals is an error here."""
    grammar = table.GRAMMAR.read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", start=list(table.STARTS), strict=True)


def test_the_grammar_has_no_conflicts_and_names_its_terminals(lark: Lark) -> None:
    names = {terminal.name for terminal in lark.terminals}
    written = {
        line.split(":")[0].split(".")[0] for line in table.GRAMMAR.read_text().splitlines() if line[:1].isupper()
    }
    assert names == written


def test_the_shipped_tables_are_those_of_the_grammar() -> None:
    assert json.loads(table.TABLE.read_bytes()) == table.generate(), "run python -m drmas_dsl.syntax.table"


def test_a_stale_table_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    grammar = tmp_path / "mas.lark"
    grammar.write_text(table.GRAMMAR.read_text().replace("/tool\\b/", "/instrument\\b/"))
    stale = tmp_path / "mas.table.json"
    stale.write_bytes(table.TABLE.read_bytes())
    monkeypatch.setattr(table, "GRAMMAR", grammar)
    monkeypatch.setattr(table, "TABLE", stale)
    fresh = table.load.__wrapped__()
    assert dict(fresh.terminals)["TOOL"] == r"instrument\b"


def test_the_lexer_finds_larks_tokens(lark: Lark) -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        try:
            expected = [(token.type, token.start_pos, token.end_pos) for token in lark.lex(text)]
        except UnexpectedInput:
            continue
        tokens, _ = lexer.lex(Source(path.name, text), Report())
        if not any(token.type == lexer.BAD for token in tokens):
            assert [(token.type, token.start, token.end) for token in tokens[:-1]] == expected, path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_parser_accepts_what_lark_accepts(lark: Lark, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    try:
        lark.parse(text, start="file")
        accepted = True
    except UnexpectedInput:
        accepted = False
    found = [one for one in parse(Source(path.name, text))[1] if "too large" not in one.message]
    assert accepted == ({one.code for one in found} <= {"E0104", "E0105"}), (
        "depth, escapes and numbers are not the grammar's"
    )


def test_the_grammar_for_editors_knows_every_keyword_and_its_patterns_compile() -> None:
    data = json.loads(table.GRAMMAR.with_name("mas.tmLanguage.json").read_text(encoding="utf-8"))
    names = set(data["repository"])
    words: set[str] = set()
    waiting: list[object] = [data]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            for key in ("match", "begin", "end"):
                if isinstance(node.get(key), str):
                    re.compile(node[key])
                    words |= set(re.findall(r"[a-z]{2,}", node[key]))
            assert str(node.get("include", "#text"))[1:] in names
            waiting += node.values()
    assert {sign.lower() for sign in lexer.KEYWORDS} <= words

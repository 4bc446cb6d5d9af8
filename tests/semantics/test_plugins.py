"""Signatures read from Python files that are never executed."""

from __future__ import annotations

from pathlib import Path

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.functions import OMITTED, REQUIRED, Parameter
from drmas_dsl.semantics.plugins import read_plugin
from drmas_dsl.syntax.source import Source
from tests.semantics.support import SYSTEM, check, checked, codes

TEXT = '''
raise SystemExit("never run")
from typing import Literal, Optional

LIMIT = 3

def _private(): ...

def grade(answer: str | None, gold: "str", *, mode: Literal["soft", "hard"] = "soft", limit: int = LIMIT) -> float:
    """The grade.

    More.
    """

async def look(query, pages: list[str], where: Optional[int] = None, *, top: int) -> str: ...
'''


def test_signatures() -> None:
    grade, look = read_plugin(Source("x.py", TEXT), Report())
    assert grade.doc == "The grade."
    assert TEXT[grade.span.start : grade.span.end] == "grade"
    assert grade.signature("reward").parameters == (
        Parameter("answer", "string?", REQUIRED),
        Parameter("gold", "string", REQUIRED),
        Parameter("mode", "enum", "soft", choices=("soft", "hard")),
        Parameter("limit", "int", OMITTED),
    )
    assert [parameter.name for parameter in grade.signature("parser").parameters] == ["gold", "mode", "limit"]
    assert [parameter.type for parameter in look.positional] == ["any", "list:string", "int?"]
    assert [parameter.name for parameter in look.signature("tool").parameters] == ["top"]
    assert [parameter.name for parameter in look.tool_call().parameters] == ["query", "pages", "where"]


def test_a_default_that_is_code_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(TEXT, encoding="utf-8")
    text = SYSTEM.replace("system demo", 'system demo\nuse "x.py"').replace("exact_match(", "grade(")
    assert checked(tmp_path, text).system.task.reward == {
        "kind": "call",
        "function": "grade",
        "args": {
            "answer": {"kind": "result"},
            "gold": {"kind": "task", "name": "answer"},
            "mode": {"kind": "const", "value": "soft"},
        },
    }


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("def grade(:\n", encoding="utf-8")
    _, found = check(tmp_path, SYSTEM.replace("system demo", 'system demo\nuse "x.py"'))
    assert [(one.code, one.span.start) for one in found] == [("E0704", 10)]


def test_an_installed_entry_point(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "rewards_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('never imported')\n", encoding="utf-8")
    (package / "grades.py").write_text("def grade_it(a: str, b: str) -> float: ...\n", encoding="utf-8")
    info = tmp_path / "rewards_of_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rewards-of-test\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[drmasc.functions]\ngraded = rewards_of_test.grades:grade_it\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    text = SYSTEM.replace("exact_match(", "graded(")
    found = checked(tmp_path, text)
    assert found.system.task.reward is not None
    assert found.system.task.reward["function"] == "graded"
    assert codes(tmp_path, text.replace("graded(result, task.answer)", "graded(result)")) == ["E0306"]

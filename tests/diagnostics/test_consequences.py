"""One mistake, one finding, through all stages: what follows from a syntax error is left out, and nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drmas_dsl.compiler import check
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.lexer import lex
from drmas_dsl.syntax.source import Source

SYSTEM = """system demo
param rounds: int = 2
model m { weights = tiny() }
agent Solver {
  model = m
  prompt = "{{ task.question }}"
  output answer = boxed()
}
tool find = lookup()
flow {
  loop rounds {
    Solver
    facts = find(Solver.answer, task.facts)
  }
  return Solver.answer
}
task { reward = math_equal(result, task.answer) }
"""
GRAPHS = Path(__file__).parents[2] / "graphs"


def errors(folder: Path, text: str) -> list[tuple[str, int]]:
    path = folder / "main.mas"
    path.write_text(text)
    result = check(path)
    lines = result.sources[str(path)]
    return [(one.code, lines.position(one.span.start)[0]) for one in result.diagnostics if one.severity == "error"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("system demo", "sytem demo", [("E0101", 1)]),
        ("param rounds:", "param rounds", [("E0101", 2)]),
        ("param rounds: int", "param : int", [("E0101", 2)]),
        ("model m {", "modle m {", [("E0101", 3)]),
        ("model m {", "model {", [("E0101", 3)]),
        ("agent Solver {", "agent {", [("E0101", 4)]),
        ("agent Solver {", "{", [("E0101", 4)]),
        ("model = m", "= m", [("E0101", 5)]),
        ("model = m", "model =", [("E0101", 5)]),
        ("output answer = boxed()", "output answer = = = boxed()", [("E0101", 7)]),
        ('"{{ task.question }}"', '"{{ task.question }}', [("E0103", 6)]),
        ("tool find = lookup()", "tool find lookup(", [("E0101", 9)]),
        ("tool find =", "tool =", [("E0101", 9)]),
        ("flow {", "{", [("E0101", 10)]),
        ("flow {", "flow", [("E0101", 10)]),
        ("loop rounds {", "loop {", [("E0101", 11)]),
        ("loop rounds {", "loop rounds", [("E0101", 11)]),
        ("    Solver\n", "    Solver }\n", [("E0101", 15)]),
        ("facts = find(", "facts = (", [("E0101", 13)]),
        ("task { reward =", "task { =", [("E0101", 17)]),
        ("task {", "tusk {", [("E0101", 17)]),
    ],
)
def test_what_follows_is_left_out(old: str, new: str, expected: list[tuple[str, int]], tmp_path: Path) -> None:
    assert SYSTEM.count(old) >= 1
    assert errors(tmp_path, SYSTEM.replace(old, new, 1)) == expected


def test_what_does_not_follow_is_told_in_the_same_run(tmp_path: Path) -> None:
    text = SYSTEM.replace("param rounds: int = 2", "param rounds int = 2").replace(
        "return Solver.answer", "return Solvr.answer"
    )
    text = text.replace("boxed()", "boxd()").replace("tiny()", "tiny(layers = 0)")
    text += "agent Second : Solver { sampling { temperature = -1, temp = 1 } }\n"
    found = [("E0101", 2), ("E0302", 3), ("E0207", 7), ("E0201", 15), ("E0302", 18), ("E0206", 18)]
    assert errors(tmp_path, text) == found


@pytest.mark.parametrize("name", ["debate.mas", "lookup.mas"])
def test_a_token_left_out_of_a_real_system_is_one_error(name: str, tmp_path: Path) -> None:
    for folder in ("prompts", "data", "lib", "models"):
        (tmp_path / folder).symlink_to(GRAPHS / folder)
    shutil.copy(GRAPHS / name, tmp_path)
    text = (GRAPHS / name).read_text(encoding="utf-8")
    tokens = lex(Source(name, text), Report())[0][:-1]
    found = [errors(tmp_path, text[: token.start] + text[token.end :]) for token in tokens[::2]]
    broken = [codes for codes in found if any(code.startswith("E01") for code, _ in codes)]
    assert len(broken) > len(found) // 2
    assert sum(len(codes) > 1 for codes in broken) <= len(broken) // 50

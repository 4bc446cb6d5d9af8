"""`docs/tasks.md` names every function that a task can use, and its example is a system without a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from drmas_dsl.compiler import check
from drmas_dsl.semantics.functions import FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("kind", "name"), sorted(key for key in FUNCTIONS if key[0] in ("reward", "tool", "dataset")))
def test_the_page_names_every_function_with_its_parameters(kind: str, name: str):
    page = (DOCS / "tasks.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| `{name}(")]
    assert rows, f"{kind} {name}"
    wanted = [parameter.name.strip("*").removesuffix("s") for parameter in FUNCTIONS[kind, name].parameters]
    assert all(parameter in rows[0] for parameter in wanted), rows[0]


def test_the_example_has_no_finding():
    assert [found.message for found in check(DOCS / "examples" / "estimates.mas").diagnostics] == []


def test_the_first_block_of_the_page_checks(tmp_path: Path):
    page = (DOCS / "tasks.md").read_text(encoding="utf-8")
    task = page.split("```mas\n")[1].split("```")[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rows.parquet").touch()
    for name in ("extra", "mine_test"):
        (tmp_path / f"{name}.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n', encoding="utf-8")
    system = (
        'system page\nmodel m { weights = tiny() }\nagent Search { model = m  prompt = "{{ task.question }}" }\n'
        "flow { Search  return Search.text }\n"
    )
    (tmp_path / "page.mas").write_text(system + task, encoding="utf-8")
    assert [found.message for found in check(tmp_path / "page.mas").diagnostics] == []

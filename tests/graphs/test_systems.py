"""Every system that ships: it checks without a finding and compiles, its data are fresh, and its rows load."""

from __future__ import annotations

from pathlib import Path

import pytest

from drmas_dsl.compiler import check, compile_file
from drmas_dsl.graph.execution import system_of
from drmas_dsl.syntax.format import format_source
from drmas_dsl.syntax.parser import read_source
from graphs.data import make
from runtime.data import load_rows

GRAPHS = Path(make.__file__).parents[1]
SYSTEMS = sorted(GRAPHS.glob("*.mas"))
assert len(SYSTEMS) >= 6


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with what `make` writes."""
    folder = tmp_path_factory.mktemp("data")
    make.main(folder)
    return folder


@pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
def test_system_has_no_finding(path):
    assert [(found.code, found.message) for found in check(path).diagnostics] == []


@pytest.mark.parametrize("path", sorted(GRAPHS.rglob("*.mas")), ids=lambda path: path.stem)
def test_file_is_formatted(path):
    source, _ = read_source(str(path))
    assert format_source(source)[0] == source.text


@pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
def test_system_compiles_under_its_file_name(path):
    assert system_of(compile_file(path)).name == path.stem


@pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
def test_a_lone_turn_is_not_trained(path):
    assert system_of(compile_file(path)).train.lone == "drop"


@pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
def test_rows_have_a_question_and_an_answer(path):
    task = system_of(compile_file(path)).task
    assert task.train is not None and task.test
    for call in (task.train, *task.test.values()):
        for row in load_rows(call, str(GRAPHS)):
            answers = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
            assert row["question"] and answers and all(isinstance(answer, str) and answer for answer in answers)


@pytest.mark.parametrize("name", make.FILES)
def test_data_file_is_what_the_script_writes(name, written):
    assert (written / name).read_bytes() == (GRAPHS / "data" / name).read_bytes()


def test_look_ups_take_as_many_hops_as_they_say():
    for row in make.lookups(7, 30, (0, 1, 2)):
        key = row["question"][-1]
        for _ in range(row["hops"]):
            key = row["facts"][key]
        assert key == row["answer"]


def test_prompts_are_all_used():
    sources = "".join(path.read_text(encoding="utf-8") for path in GRAPHS.rglob("*.mas"))
    assert [path.name for path in (GRAPHS / "prompts").iterdir() if path.name not in sources] == []

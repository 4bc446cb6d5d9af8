"""`--set PATH=VALUE`: what it changes, and where its findings stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.settings import Call
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.overrides import parse_override
from tests.semantics.support import SYSTEM, check, checked

TWO = SYSTEM.replace(
    "model m { weights = tiny() }",
    """param rounds: int = 2 in 1..8
param name: string = "x"
model m { weights = tiny(), sharing = none }
model big : m { sharing = adapter }
model far { engine = openai("http://localhost:1", "x") }
tool find = http_retriever("http://localhost:2")""",
)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@given(st.lists(names, min_size=1, max_size=4), st.text(st.characters(exclude_characters="\n="), max_size=20))
def test_path_and_value_are_parted_at_the_first_sign(path: list[str], value: str) -> None:
    text = f"{'.'.join(path)}={value}"
    source = f"a=1\n{text}\nb=2"
    override = parse_override(text, 4, Context(Report(), "/", {}))
    assert override is not None
    assert [part.name for part in override.path] == path
    assert [source[part.span.start : part.span.end] for part in override.path] == path
    assert source[override.start : override.end] == value


@given(st.text(max_size=20))
def test_anything_parses_or_is_one_finding(text: str) -> None:
    report = Report()
    override = parse_override(text, 0, Context(report, "/", {}))
    assert (override is None) == (len(report.diagnostics) == 1)


def test_params_and_settings(tmp_path: Path) -> None:
    found = checked(
        tmp_path, TWO, "rounds=2 * 3", "A.sampling.max_tokens=64", "A.sampling.temperature=1 / 2", "train.steps=rounds"
    )
    assert found.params["rounds"] == 6
    assert found.system.agents["A"].sampling.max_tokens == 64
    assert found.system.agents["A"].sampling.temperature == 0.5
    assert found.system.train.steps == 6


def test_every_model_that_is_not_remote(tmp_path: Path) -> None:
    found = checked(tmp_path, TWO, "big.context=99", "model.engine=hf(max_batch = 3)", "model.context=256")
    engines = {name: model.engine.function for name, model in found.system.models.items()}
    assert engines == {"m": "hf", "big": "hf", "far": "openai"}
    assert {name: model.context for name, model in found.system.models.items()} == {"m": 256, "big": 99, "far": None}


def test_a_base_hands_its_override_on(tmp_path: Path) -> None:
    found = checked(tmp_path, TWO, "m.optimizer.lr=0.5")
    assert found.system.models["big"].optimizer.lr == 0.5


@pytest.mark.parametrize("value", ["a careful one", "reviewer", "a - b", '"quoted"', "50% sure", "{x}", "#1"])
def test_a_string_where_a_string_fits(tmp_path: Path, value: str) -> None:
    plain = value.strip('"')
    assert checked(tmp_path, TWO, f"A.role={value}").system.agents["A"].role == plain
    assert checked(tmp_path, TWO, f"name={value}").params["name"] == plain


def test_a_param_is_not_taken_as_a_string(tmp_path: Path) -> None:
    assert checked(tmp_path, TWO, "A.role=name").system.agents["A"].role == "x"


def test_a_string_does_not_fit_a_number(tmp_path: Path) -> None:
    _, found = check(tmp_path, TWO, "rounds=many", "A.penalty=a lot")
    assert [(one.code, one.span.file, one.span.start) for one in found] == [
        ("E0101", "--set", 24),
        ("E0201", "--set", 7),
    ]


def test_weights_by_name(tmp_path: Path) -> None:
    assert checked(tmp_path, TWO, "m.weights=Qwen/Qwen3-4B").system.models["m"].weights == "Qwen/Qwen3-4B"
    assert checked(tmp_path, TWO, "m.weights=tiny(seed = 3)").system.models["m"].weights.args["seed"] == 3


def test_paths_start_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "rows.csv").write_text("question,answer\n1,1\n", encoding="utf-8")
    (here / "weights").mkdir()
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(here)
    found = checked(
        there, TWO, 'task.train=dataset("rows.csv")', "m.weights=./weights", 'task.test=dataset("rows.csv")'
    )
    none = dict.fromkeys(("columns", "split", "config"))
    assert found.system.task.train == Call("dataset", {"path": {"path": "../here/rows.csv"}, **none})
    assert found.system.task.test["test"].args["path"] == {"path": "../here/rows.csv"}
    assert found.system.models["m"].weights == {"path": "../here/weights"}


def test_tools_and_pools(tmp_path: Path) -> None:
    text = TWO + "resources { pool main { cpus = 1 } }\n"
    found = checked(tmp_path, text, "resources.main.cpus=3", "find=lookup")
    assert found.system.pools["main"].cpus == 3
    assert found.system.tools["find"].call.function == "lookup"
    assert [parameter.name for parameter in found.tool_calls["find"].parameters] == ["key", "facts"]


def test_the_last_of_two_counts(tmp_path: Path) -> None:
    assert checked(tmp_path, TWO, "train.steps=1", "train.steps=2").system.train.steps == 2


def test_one_named_dataset_over_a_single_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("question,answer\n1,1\n", encoding="utf-8")
    text = TWO.replace("task {", 'task { test = dataset("a.csv")')
    assert list(checked(tmp_path, text, 'task.test.other=dataset("a.csv")').system.task.test) == ["other"]


def test_no_model_to_address(tmp_path: Path) -> None:
    text = SYSTEM.replace("weights = tiny()", 'engine = openai("http://localhost:1", "x")')
    _, found = check(tmp_path, text, "model.context=64")
    assert [(one.code, one.span.start) for one in found] == [("E0209", 0)]


def test_a_prompt_may_be_a_param(tmp_path: Path) -> None:
    text = SYSTEM.replace("agent A", 'param ask: string = "Solve {{ task.question }}"\nagent A').replace(
        'prompt = "{{ task.question }}"', "prompt = ask"
    )
    assert checked(tmp_path, text, "ask=Say {{ task.answer }}").system.agents["A"].prompt == "Say {{ task.answer }}"
    _, found = check(tmp_path, text, "ask={{ nothing }}")
    assert [(one.code, text[one.span.start : one.span.end]) for one in found] == [("E0402", "a")]

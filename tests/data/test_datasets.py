"""Datasets of several files, mixtures, generated questions and the hub; and that rows are read when they are asked for."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.compiler import compile_file
from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.serialize import from_json, to_json
from drmas_dsl.graph.settings import Call
from runtime.data import QuestionSampler, load_rows
from runtime.datasets.rows import Mixture, Rows
from runtime.rollout.rewards import reasoning_gym_score


def dataset(path: str, **args: Any) -> Call:
    return Call("dataset", {"path": {"path": path}, **args})


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    written(tmp_path / "train" / "b-1.jsonl", [{"question": "b", "n": 1}, {"question": "c"}])
    written(tmp_path / "train" / "a.jsonl", [{"question": "a"}])
    written(tmp_path / "train" / "more" / "d.parquet", [{"question": "d", "n": 4}])
    (tmp_path / "train" / "README.md").write_text("not data")
    return tmp_path


def test_a_folder_is_all_its_files_in_order(shards: Path):
    rows = load_rows(dataset("train"), str(shards))
    assert [row["question"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["id"] for row in rows] == ["0", "1", "2", "3"] and [row["n"] for row in rows] == [None, 1, None, 4]
    assert rows[-1] == rows[3] and rows[1:3] == [rows[1], rows[2]]


def test_a_pattern_is_what_it_matches(shards: Path):
    rows = load_rows(dataset("train/*.jsonl"), str(shards))
    assert [row["question"] for row in rows] == ["a", "b", "c"]
    assert len(load_rows(dataset("train/b-?.jsonl"), str(shards))) == 2
    with pytest.raises(UserError, match="has no files of data"):
        load_rows(dataset("train/x*.jsonl"), str(shards))


def test_a_mistake_in_a_shard_names_its_file_and_line(shards: Path):
    (shards / "train" / "c.jsonl").write_text('{"question": "x"}\n\n{"question"\n')
    with pytest.raises(UserError, match=r"train/c\.jsonl:3:12: no JSON"):
        load_rows(dataset("train"), str(shards))


def test_columns_reach_into_others(tmp_path: Path):
    written(tmp_path / "a.jsonl", [{"q": "x", "answers": {"text": ["y", "z"]}, "a.b": 1}])
    (row,) = load_rows(dataset("a.jsonl", columns=["question = q", "answer = answers.text", "n = a.b"]), str(tmp_path))
    assert row == {"question": "x", "answer": ["y", "z"], "n": 1, "id": "0"}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_rows_are_not_kept(tmp_path: Path, suffix: str):
    size = 2000
    written(tmp_path / f"a{suffix}", [{"question": f"{n} " + "x" * 1000, "answer": str(n)} for n in range(size)])
    tracemalloc.start()
    rows = load_rows(dataset(f"a{suffix}"), str(tmp_path))
    assert rows[1234]["answer"] == "1234" and rows[0]["answer"] == "0" and len(rows) == size
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < size * 500  # the texts alone are 1000 bytes a row


# Mixtures


class Numbered(Rows):
    columns = ("id",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def read(self, number: int) -> dict[str, Any]:
        return {"id": str(number)}


def test_a_mixture_tells_its_parts_apart(tmp_path: Path):
    written(tmp_path / "a.jsonl", [{"question": "a0", "level": 1}, {"question": "a1"}])
    written(tmp_path / "b.jsonl", [{"id": "x", "question": "b0"}])
    rows = load_rows(
        Call("mix", {"datasets": [dataset("a.jsonl"), dataset("b.jsonl")], "weights": [1.0, 1.0]}), str(tmp_path)
    )
    assert [row["id"] for row in rows] == ["1:0", "1:1", "2:x"]
    assert [row["level"] for row in rows] == [1, None, None]


def test_training_draws_by_weight():
    sampler = QuestionSampler(Mixture([Numbered(50), Numbered(3), Numbered(7)], [0.7, 0.2, 0.1]), 10, 0)
    for step in range(20):
        assert Counter(row["id"][0] for row in sampler.batch(step)) == {"1": 7, "2": 2, "3": 1}


def test_without_weights_every_row_comes_once_in_an_epoch():
    rows = Mixture([Numbered(5), Numbered(2)], None)
    ids = [row["id"] for row in QuestionSampler(rows, 7, 1).batch(0)]
    assert sorted(ids) == sorted(row["id"] for row in rows)


def test_a_mixture_in_a_mixture_keeps_its_share():
    rows = Mixture([Mixture([Numbered(4), Numbered(4)], [3, 1]), Numbered(9)], [1, 1])
    assert rows.weights == [0.375, 0.125, 0.5] and [row["id"] for row in rows][8] == "3:0"


@given(
    st.lists(st.tuples(st.integers(1, 9), st.floats(0.05, 5)), min_size=2, max_size=5),
    st.integers(1, 7),
    st.integers(0, 2),
)
def test_shares_hold_for_every_run_of_questions_and_steps_are_addressed(
    parts: list[tuple[int, float]], size: int, seed: int
):
    rows = Mixture([Numbered(count) for count, _ in parts], [weight for _, weight in parts])
    sampler = QuestionSampler(rows, size, seed)
    seen = [row["id"].split(":") for step in range(30) for row in sampler.batch(step)]
    for end in range(1, len(seen) + 1):
        counts = Counter(int(part) for part, _ in seen[:end])
        assert all(abs(counts[n] - share * end) <= len(parts) for n, share in enumerate(rows.weights, 1))
    for number, (count, _) in enumerate(parts, 1):  # each in epochs of its own
        own = [id for part, id in seen if int(part) == number]
        for start in range(0, len(own) - count + 1, count):
            assert len(set(own[start : start + count])) == count
    assert QuestionSampler(rows, size, seed).batch(29) == sampler.batch(29)


# Generated questions


def gym(task: str = "chain_sum", size: int = 20, seed: int = 1, options: list[str] | None = None) -> Call:
    return Call("reasoning_gym", {"task": task, "size": size, "seed": seed, "options": options})


def test_generated_questions_by_size_and_seed():
    pytest.importorskip("reasoning_gym")
    rows = load_rows(gym(), "")
    assert len(rows) == 20 and [row["id"] for row in rows[:3]] == ["0", "1", "2"]
    assert rows[3] == load_rows(gym(), "")[3] and rows[3] != load_rows(gym(seed=2), "")[3]
    assert set(rows[0]) == {"question", "answer", "data_source", "entry", "id"}
    json.dumps(rows[:20])
    short = load_rows(gym(options=["max_terms = 2", "max_digits=1"]), "")
    assert all(sum(word in "+-" for word in row["question"].split()) == 1 for row in short)


def test_the_verifier_is_the_reward():
    pytest.importorskip("reasoning_gym")
    row = load_rows(gym(), "")[4]
    assert reasoning_gym_score(row["answer"], row["entry"]) == 1.0
    assert reasoning_gym_score("many", row["entry"]) < 1 and reasoning_gym_score(None, row["entry"]) == 0
    assert reasoning_gym_score(row["answer"], json.loads(json.dumps(row["entry"]))) == 1.0
    # Its metadata would not survive JSON, and its verifier fails at what is no number.
    grid, primes = load_rows(gym("rearc", 2), "")[1], load_rows(gym("prime_factorization", 2), "")[1]
    assert reasoning_gym_score(grid["answer"], grid["entry"]) == 1.0
    assert reasoning_gym_score("banana", primes["entry"]) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (gym("chain_some"), "no task 'chain_some'"),
        (gym(options=["terms = 3"]), "chain_sum has no option terms"),
        (gym(options=["seed = 3"]), "chain_sum has no option seed"),
        (gym(options=["max_terms ="]), "is no option"),
        (gym(options=["max_terms = 1", "min_terms = 5"]), r"reasoning_gym\(chain_sum\) cannot be made"),
    ],
)
def test_what_the_library_does_not_have(call: Call, message: str):
    pytest.importorskip("reasoning_gym")
    with pytest.raises(UserError, match=message):
        load_rows(call, "")


# The hub


def test_the_hub_needs_its_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match="needs the package datasets") as error:
        load_rows(Call("dataset", {"path": "openai/gsm8k"}), "")
    assert "drmasc[hub]" in error.value.help


def test_the_hub_through_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The library takes a folder of the current one for a dataset too, so that it works here without a network."""
    pytest.importorskip("datasets")
    written(tmp_path / "owner" / "name" / "train.jsonl", [{"question": "a", "solution": "b"}] * 3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    rows = load_rows(Call("dataset", {"path": "owner/name", "columns": ["question", "answer = solution"]}), "")
    assert rows[2] == {"question": "a", "answer": "b", "id": "2"}
    with pytest.raises(UserError, match=r"cannot load the dataset owner/other \(test\)"):
        load_rows(Call("dataset", {"path": "owner/other", "split": "test"}), "")


def test_a_table_without_rows(tmp_path: Path):
    written(tmp_path / "a.jsonl", [])
    with pytest.raises(UserError, match="has no rows"):
        load_rows(dataset("a.jsonl"), str(tmp_path))


def test_calls_in_calls_survive_the_graphs_json():
    cases = Path(__file__).parents[1] / "cases"
    graph = compile_file(cases / "fine_datasets.mas")
    again = from_json(to_json(graph, str(cases)), str(cases))
    assert system_of(again).task == system_of(graph).task
    assert system_of(again).task.test["hub"].args["path"] == "openai/gsm8k"

"""Datasets: every format, the reference's rows, ids, and errors that name their place; the sampler's epochs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.data import QuestionSampler, load_rows
from runtime.datasets.files import Row


def load(folder: Path, name: str, text: str, **args: Any) -> list[Row]:
    (folder / name).write_text(text, encoding="utf-8")
    return list(load_rows(Call("dataset", {"path": {"path": name}, **args}), str(folder)))


ROWS = [{"question": "1 + 1?", "answer": "2"}, {"question": 'é, "x"', "answer": "3"}]


def test_jsonl(tmp_path: Path):
    lines = "\n\n".join(json.dumps(row) for row in ROWS)
    assert load(tmp_path, "rows.jsonl", lines) == [{**row, "id": str(n)} for n, row in enumerate(ROWS)]


def test_csv(tmp_path: Path):
    text = '\ufeffquestion,answer\n1 + 1?,2\n"é, ""x""",3\n'
    assert load(tmp_path, "rows.csv", text) == [{**row, "id": str(n)} for n, row in enumerate(ROWS)]


def test_parquet(tmp_path: Path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    rows = load_rows(Call("dataset", {"path": {"path": "rows.parquet"}}), str(tmp_path))
    assert list(rows) == [{**row, "id": str(n)} for n, row in enumerate(ROWS)]


def test_the_references_rows_come_out_flat(tmp_path: Path):
    math = {
        "data_source": "math",
        "prompt": [{"role": "user", "content": "x"}],
        "env_kwargs": {"question": "1 + 1?", "ground_truth": "2", "data_source": "math"},
        "reward_model": {"style": "rule", "ground_truth": "2"},
    }
    search = {
        "env_kwargs": {"question": "Who?", "ground_truth": {"target": ["A", "B"]}},
        "reward_model": {"style": "rule", "ground_truth": {"target": ["A", "B"]}},
    }
    plain = {"question": "q", "reward_model": {"ground_truth": 5}}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([math]), tmp_path / "math.parquet")
    (row,) = load_rows(Call("dataset", {"path": {"path": "math.parquet"}}), str(tmp_path))
    assert (row["question"], row["answer"], row["ground_truth"]) == ("1 + 1?", "2", "2")
    rows = load(tmp_path, "rows.jsonl", "\n".join(map(json.dumps, [search, plain])))
    assert [row["answer"] for row in rows] == [["A", "B"], 5]
    assert rows[0]["question"] == "Who?"


def test_a_column_that_a_row_lacks_is_none_there(tmp_path: Path):
    rows = load(tmp_path, "rows.jsonl", '{"a": 1}\n{"b": 2}')
    assert rows == [{"a": 1, "id": "0", "b": None}, {"a": None, "id": "1", "b": 2}]


def test_columns_choose_and_rename(tmp_path: Path):
    text = '{"problem": "x", "solution": "y", "level": 3}'
    rows = load(tmp_path, "rows.jsonl", text, columns=["question = problem", "level"])
    assert rows == [{"question": "x", "level": 3, "id": "0"}]
    with pytest.raises(UserError, match="has no column 'ask'") as error:
        load(tmp_path, "rows.jsonl", text, columns=["question = ask"])
    assert error.value.help == "its columns are problem, solution, level"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": \n', "a.jsonl:2:6: no JSON"),
        ("a.jsonl", '{"a": 1}\n[1]\n', "a.jsonl:2: not an object"),
        ("a.jsonl", "\n", "a.jsonl has no rows"),
        ("a.jsonl", '{"id": 1}\n{"id": "1"}', r"a.jsonl:2: the id '1' is that of .*a.jsonl:1 too"),
        ("a.jsonl", '{"id": 1}\n{"b": 2}', "a.jsonl:2: no id"),
        ("a.csv", "a,b\n1,2\n1,2,3\n", "a.csv:3: 3 values for 2 columns"),
        ("a.csv", "a,a\n1,2\n", "a.csv:1: two columns"),
        ("a.csv", 'a\n"x\n', "a.csv:2: no CSV"),
        ("a.parquet", "text", "a.parquet is no Parquet file"),
        ("a.txt", "text", "a.txt is no dataset"),
    ],
)
def test_what_is_wrong_names_its_place(tmp_path: Path, name: str, text: str, message: str):
    with pytest.raises(UserError, match=message):
        load(tmp_path, name, text)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path):
    with pytest.raises(UserError, match=r"cannot read .*b\.jsonl: No such file"):
        load_rows(Call("dataset", {"path": {"path": "b.jsonl"}}), str(tmp_path))
    (tmp_path / "c.jsonl").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UserError, match="not UTF-8"):
        load_rows(Call("dataset", {"path": {"path": "c.jsonl"}}), str(tmp_path))


def test_a_plugins_rows(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "def sums(path, top: int = 2):\n"
        "    return [{'question': f'{n} + {n}', 'ground_truth': 2 * n, 'file': path} for n in range(top)]\n"
        "def broken(path):\n    return [1]\n"
    )
    args = {"path": {"path": "rows.txt"}}
    rows = load_rows(Call("sums", args), str(tmp_path), ({"path": "mine.py"},))
    file = str(tmp_path / "rows.txt")
    assert rows[1] == {"question": "1 + 1", "ground_truth": 2, "file": file, "answer": 2, "id": "1"}
    with pytest.raises(UserError, match="row 0 is no mapping"):
        load_rows(Call("broken", args), str(tmp_path), ({"path": "mine.py"},))
    with pytest.raises(UserError, match="fails: TypeError"):
        load_rows(Call("sums", {**args, "top": "x"}), str(tmp_path), ({"path": "mine.py"},))


@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 3))
def test_the_sampler_goes_through_every_row_in_every_epoch(count: int, size: int, seed: int):
    rows = [{"id": str(n)} for n in range(count)]
    sampler = QuestionSampler(rows, size, seed)
    seen = [row["id"] for step in range(2 * count) for row in sampler.batch(step)]
    assert len(seen) == 2 * count * size
    for epoch in range(0, len(seen), count):
        assert sorted(seen[epoch : epoch + count]) == sorted(row["id"] for row in rows)
    assert QuestionSampler(rows, size, seed).batch(count) == sampler.batch(count)  # addressed by step alone


def test_the_seed_shuffles():
    rows = [{"id": str(n)} for n in range(20)]
    orders = [[row["id"] for row in QuestionSampler(rows, 20, seed).batch(step)] for seed in (0, 1) for step in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4

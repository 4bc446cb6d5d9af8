"""The index: what it finds, what it leaves out, and corpora that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drmas_dsl.errors import UserError
from runtime.retrieval.bm25 import Index, open_index
from runtime.rollout.tools import bm25

CORPUS = [
    {"id": "rome", "contents": "Rome\nRome is the capital of Italy."},
    {"id": "oslo", "contents": "Oslo\nOslo is the capital of Norway."},
    {"id": "yde", "title": "Yaoundé", "text": "The capital of Cameroon, with 2,440,462 inhabitants."},
]


def written(folder: Path, rows: list[Any]) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("\n\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def found(path: Path, query: str, top_k: int = 3) -> list[str]:
    return [hit.document["id"] for hit in open_index(path).search(query, top_k)]


def test_the_best_come_first_and_what_shares_no_word_is_left_out(tmp_path: Path):
    path = written(tmp_path, CORPUS)
    assert found(path, "What is the capital of Italy?")[0] == "rome"
    assert found(path, "Norway") == ["oslo"] and found(path, "OSLO, norway!") == ["oslo"]
    assert found(path, "Yaounde") == found(path, "yaoundé") == ["yde"]
    assert len(found(path, "capital", 2)) == 2 and len(found(path, "capital", 9)) == 3
    assert found(path, "zebra") == found(path, "") == found(path, "the of") == found(path, "?") == []
    scores = [hit.score for hit in open_index(path).search("capital of Italy", 3)]
    assert scores == sorted(scores, reverse=True)


def test_single_characters_are_words(tmp_path: Path):
    rows = [{"id": letter, "contents": f"{letter} is next to {chr(ord(letter) + 1)}"} for letter in "bdfhj"]
    assert found(written(tmp_path, rows), "f", 1) == ["f"]


def test_the_tool_numbers_the_passages(tmp_path: Path):
    path = str(written(tmp_path, CORPUS))
    assert bm25("capital Norway", corpus=path, top_k=1) == "[1] Oslo\nOslo is the capital of Norway."
    assert bm25("Cameroon", corpus=path) == "[1] Yaoundé\nThe capital of Cameroon, with 2,440,462 inhabitants."
    assert bm25("zebra", corpus=path) == ""


def test_one_document():
    assert Index([CORPUS[0]]).search("Rome", 3)[0].document["id"] == "rome"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"contents": "a"}\n{"contents": ', "corpus.jsonl:2:14: no JSON"),
        ('{"contents": "a"}\n["b"]', "corpus.jsonl:2: no passage"),
        ('{"id": 1, "contents": null}', "corpus.jsonl:1: no passage"),
        ("\n", "has no passages"),
    ],
)
def test_what_is_wrong_with_a_corpus_names_its_place(tmp_path: Path, text: str, message: str):
    path = tmp_path / "corpus.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        open_index(path)


def test_a_corpus_that_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match=r"cannot read .*: No such file"):
        bm25("x", corpus=str(tmp_path / "none.jsonl"))

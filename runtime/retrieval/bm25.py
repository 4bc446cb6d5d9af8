"""BM25 over a corpus of passages, in this process (the `bm25s` package).

A corpus is a JSONL file, an object on each line with the passage in `contents`, as the corpora of Search-R1 have it, or with
`title` and `text`. It is read and indexed once per process; nothing is written beside it.
"""

from __future__ import annotations

import json
import os
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from drmas_dsl.errors import UserError

TOKEN = r"(?u)\b\w+\b"
_opening = threading.Lock()  # those who ask for the same index at once wait for one of them to make it


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: its row of the corpus, with `contents`, and how well it fits."""

    document: Mapping[str, Any]
    score: float


class Index:
    """An index over documents, each with `contents`. Reading only, so any number of threads may search."""

    def __init__(self, documents: Sequence[Mapping[str, Any]]) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise UserError("BM25 needs the package bm25s", "install it with `pip install 'drmasc[search]'`") from error

        self.documents = documents
        texts = [folded(document["contents"]) for document in documents]
        self._tokenize = partial(bm25s.tokenize, token_pattern=TOKEN, return_ids=False, show_progress=False)
        self._bm25 = bm25s.BM25()
        self._bm25.index(self._tokenize(texts), show_progress=False)

    def search(self, query: str, top_k: int) -> list[Hit]:
        """The `top_k` passages that fit best, the best first; those that share no word with the query are left out."""
        tokens = self._tokenize([folded(query)])
        places, scores = self._bm25.retrieve(tokens, k=min(top_k, len(self.documents)), show_progress=False)
        found = zip(places[0].tolist(), scores[0].tolist(), strict=True)
        return [Hit(self.documents[place], score) for place, score in found if score > 0]


def open_index(path: str | Path) -> Index:
    """The index of a corpus file, made when it is first asked for.

    Raises:
        UserError: the file cannot be read, or a line of it is no passage.
    """
    path = os.path.abspath(path)
    with _opening:
        return _indexed(path)


@lru_cache(maxsize=8)
def _indexed(path: str) -> Index:
    return Index(read_corpus(Path(path)))


def read_corpus(path: Path) -> list[dict[str, Any]]:
    """The rows of a corpus file, each with `contents`.

    Raises:
        UserError: the file cannot be read, or a line of it is no passage.
    """
    try:
        with path.open(encoding="utf-8") as file:
            documents = [_document(line, f"{path}:{number}") for number, line in enumerate(file, 1) if line.strip()]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    if not documents:
        raise UserError(f"the corpus {path} has no passages")
    return documents


def _document(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{place}:{error.colno}: no JSON: {error.msg}", "a corpus has an object on each line"
        ) from error
    if isinstance(row, dict):
        if isinstance(row.get("contents"), str):
            return row
        if isinstance(row.get("text"), str):
            return {**row, "contents": "\n".join(filter(None, (row.get("title"), row["text"])))}
    raise UserError(f"{place}: no passage", 'e.g. {"id": "0", "contents": "Rome\\nRome is the capital of Italy."}')


def folded(text: str) -> str:
    """The text without accents, so that `Yaounde` finds `Yaoundé`."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(character for character in decomposed if not unicodedata.combining(character))

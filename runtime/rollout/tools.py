"""Tools: functions that the flow calls. The arguments of the call come first, by name; the settings that
`tool x = function(…)` binds are keyword-only.

A tool may be a coroutine. One that cannot answer raises `ToolFailure`, and the trajectory is marked as failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.rollout.failures import ToolFailure

UNKNOWN = "unknown"


def lookup(key: Any, facts: Any) -> str:
    """The value of `key` in `facts`, or `unknown`. The facts are a mapping, or a text of `key=value` items that commas,
    semicolons or line breaks part (spaces, where the text has none of these)."""
    if isinstance(facts, str):
        facts = _items(facts)
    if not isinstance(facts, Mapping):
        raise ToolFailure(f"facts must be a mapping or a text of key=value items, not {type(facts).__name__}")
    return str(facts.get(str(key).strip(), UNKNOWN))


def _items(text: str) -> dict[str, str]:
    items = re.split(r"[,;\n]", text) if re.search(r"[,;\n]", text.strip()) else text.split()
    pairs = (item.partition("=") for item in items if "=" in item)
    return {key.strip(): value.strip() for key, _, value in pairs}


async def http_retriever(
    query: Any,
    *,
    url: str | None = None,
    top_k: int = 3,
    timeout: float = 10.0,
    retries: int = 3,
    urls: Sequence[str] | None = None,
) -> str:
    """The passages that a retrieval server finds, numbered, a blank line between them.

    `POST url {"queries": [query], "topk": k, "return_scores": true}` gives `{"result": [[{"document": {"contents": …}}]]}`, as
    the server of Search-R1 does. One attempt takes at most `timeout` seconds; a connection that fails, a time-out, and
    the statuses 429 and 5xx are tried again `retries` times, at the next of `urls` or, where no other is up, after a
    pause. A query that was answered is not sent again in the same run.

    Raises:
        ToolFailure: no attempt gave passages.
    """
    from runtime.retrieval.client import Settings, client

    servers = tuple(urls) if urls else (url,) if url else ()
    if not servers:
        raise ToolFailure("http_retriever has no server to ask")
    return _numbered(await (await client(Settings(servers, top_k, timeout, retries))).passages(str(query)))


def bm25(query: Any, *, corpus: str, top_k: int = 3) -> str:
    """The passages of a corpus file that fit best by BM25, numbered, a blank line between them; an empty text where none
    shares a word with the query."""
    from runtime.retrieval.bm25 import open_index

    return _numbered([hit.document["contents"] for hit in open_index(corpus).search(str(query), top_k)])


def _numbered(passages: Sequence[str]) -> str:
    return "\n\n".join(f"[{place}] {passage}" for place, passage in enumerate(passages, 1))

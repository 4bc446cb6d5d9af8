"""Tools: functions that the flow calls. The arguments of the call come first, by name; the settings that
`tool x = function(…)` binds are keyword-only.

A tool may be a coroutine. One that cannot answer raises `ToolFailure`, and the trajectory is marked as failed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
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


async def http_retriever(query: Any, *, url: str, top_k: int = 3, timeout: float = 10.0, retries: int = 3) -> str:
    """The passages that a retrieval server finds, numbered, a blank line between them.

    `POST url {"queries": [query], "topk": k, "return_scores": true}` gives `{"result": [[{"document": {"contents": …}}]]}`, as
    the server of Search-R1 does. One attempt takes at most `timeout` seconds; a connection that fails, a time-out, and
    the statuses 429 and 5xx are tried again `retries` times, half a second and then twice as long apart.

    Raises:
        ToolFailure: no attempt gave passages.
    """
    import aiohttp

    body = {"queries": [str(query)], "topk": top_k, "return_scores": True}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session:
        for attempt in range(retries + 1):
            if attempt:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                async with session.post(url, json=body) as response:
                    if response.status == 200:
                        return _passages(await response.json(content_type=None), url)
                    problem = f"status {response.status}"
                    if response.status != 429 and response.status < 500:
                        break
            except TimeoutError:
                problem = f"no answer within {timeout:g} s"
            except aiohttp.InvalidURL as error:
                raise ToolFailure(f"{url!r} is no URL") from error
            except (aiohttp.ClientError, OSError) as error:
                problem = str(error) or type(error).__name__
            except ValueError as error:
                problem = f"not JSON ({error})"
                break
    raise ToolFailure(f"{url}: {problem} (attempts: {attempt + 1})")


FIRST_PAUSE = 0.5  # seconds before the second attempt


def _passages(reply: Any, url: str) -> str:
    try:
        found = [hit["document"]["contents"] for hit in reply["result"][0]]
    except (KeyError, IndexError, TypeError) as error:
        raise ToolFailure(f'{url}: not {{"result": [[{{"document": {{"contents": …}}}}]]}}') from error
    return "\n\n".join(f"[{place}] {contents}" for place, contents in enumerate(found, 1))

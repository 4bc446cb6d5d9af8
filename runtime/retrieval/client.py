"""Asks retrieval servers: in turn, past those that are down, over connections that stay open, and no question twice.

A `Client` lives as long as the event loop that it works on, which is one run; its cache is thus a cache of the run.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import aiohttp

from runtime.rollout.failures import ToolFailure

FIRST_PAUSE = 0.5  # seconds before a server that just failed is asked again, and then twice as long each time
REST = 10.0  # seconds for which a server that failed is passed over
CACHED = 65536  # answers that are kept


class Settings(NamedTuple):
    """How to ask: `timeout` seconds for one attempt, `retries` further attempts."""

    urls: tuple[str, ...]
    top_k: int
    timeout: float
    retries: int


class Client:
    """Asks the servers of its settings. `rests` holds until when a server is passed over, by its url."""

    def __init__(self, settings: Settings, session: aiohttp.ClientSession) -> None:
        self.settings = settings
        self._session = session
        self._asked = 0
        self._rests: dict[str, float] = {}
        self._cache: OrderedDict[str, list[str]] = OrderedDict()

    async def passages(self, query: str) -> list[str]:
        """The passages that a server finds, the best first.

        Raises:
            ToolFailure: no attempt gave passages.
        """
        if query not in self._cache:
            self._cache[query] = await self._ask(query)
            if len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        self._cache.move_to_end(query)
        return self._cache[query]

    async def _ask(self, query: str) -> list[str]:
        pause = FIRST_PAUSE
        for attempt in range(1, self.settings.retries + 2):
            url = self._next()
            if attempt > 1 and url in self._rests:
                await asyncio.sleep(pause)
                pause *= 2
            try:
                found = await self._attempt(url, query)
            except _Stumble as stumble:
                self._rests[url] = time.monotonic() + REST
                problem = f"{url}: {stumble}"
            else:
                self._rests.pop(url, None)
                return found
        raise ToolFailure(f"{problem} (attempts: {attempt})")

    def _next(self) -> str:
        """The next server in turn that does not rest; where all do, the one that has rested longest."""
        now = time.monotonic()
        self._rests = {url: until for url, until in self._rests.items() if until > now}
        urls = self.settings.urls
        self._asked += 1
        turn = [urls[(self._asked + place) % len(urls)] for place in range(len(urls))]
        return next((url for url in turn if url not in self._rests), min(turn, key=lambda url: self._rests.get(url, 0)))

    async def _attempt(self, url: str, query: str) -> list[str]:
        body = {"queries": [query], "topk": self.settings.top_k, "return_scores": True}
        limit = aiohttp.ClientTimeout(total=self.settings.timeout)
        try:
            async with self._session.post(url, json=body, timeout=limit) as response:
                if response.status == 429 or response.status >= 500:
                    raise _Stumble(f"status {response.status}")
                if response.status != 200:
                    raise ToolFailure(f"{url}: status {response.status}: {(await response.text())[:200]}")
                return _passages(await response.json(content_type=None), url)
        except TimeoutError as error:
            raise _Stumble(f"no answer within {self.settings.timeout:g} s") from error
        except aiohttp.InvalidURL as error:
            raise ToolFailure(f"{url!r} is no URL") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _Stumble(str(error) or type(error).__name__) from error
        except ValueError as error:
            raise ToolFailure(f"{url}: not JSON ({error})") from error


class _Stumble(Exception):
    """A failure that another attempt may mend."""


def _passages(reply: Any, url: str) -> list[str]:
    try:
        return [str(hit["document"]["contents"]) for hit in reply["result"][0]]
    except (KeyError, IndexError, TypeError) as error:
        raise ToolFailure(f'{url}: not {{"result": [[{{"document": {{"contents": …}}}}]]}}') from error


class _Clients(NamedTuple):
    """The clients of an event loop, and what keeps their session open."""

    by_settings: dict[Settings, Client]
    session: aiohttp.ClientSession
    opened: AsyncGenerator[aiohttp.ClientSession, None]


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()


async def client(settings: Settings) -> Client:
    """The client with these settings of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        opened = _session(loop)
        _clients[loop] = _Clients({}, await anext(opened), opened)
    found = _clients[loop]
    return found.by_settings.setdefault(settings, Client(settings, found.session))


async def _session(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[aiohttp.ClientSession, None]:
    """A session, open until the loop ends: `asyncio.run` closes the generators that are left."""
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit_per_host=64)) as session:
            yield session
    finally:
        del _clients[loop]

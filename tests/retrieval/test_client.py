"""The retriever against real HTTP servers that are well, slow, broken or gone: one, and several in turn."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runtime.retrieval import client
from runtime.rollout.failures import ToolFailure
from runtime.rollout.tools import http_retriever


class Server(ThreadingHTTPServer):
    """Answers with the next of `replies`, (status, body, seconds to wait), the last one for ever; keeps what it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[tuple[int, str, float]] = []
        self.asked: list[Any] = []
        self.callers: set[Any] = set()
        self.url = f"http://127.0.0.1:{self.server_port}/retrieve"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.callers.add(self.client_address)
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        replies = self.server.replies
        status, body, seconds = replies.pop(0) if len(replies) > 1 else replies[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for byte in body.encode():  # slowly and without a pause that a socket's time-out would notice
            time.sleep(seconds / len(body))
            try:
                self.wfile.write(bytes([byte]))
            except OSError:
                return

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


GOOD = json.dumps(
    {"result": [[{"document": {"contents": "Rome\nA city."}, "score": 1.0}, {"document": {"contents": "B"}}]]}
)


def ask(server: Server, **settings: Any) -> str:
    return asyncio.run(
        http_retriever("where?", **{"url": server.url, "top_k": 2, "timeout": 5.0, "retries": 2, **settings})
    )


def test_the_passages_that_a_server_finds(server: Server):
    server.replies = [(200, GOOD, 0)]
    assert ask(server) == "[1] Rome\nA city.\n\n[2] B"
    assert server.asked == [{"queries": ["where?"], "topk": 2, "return_scores": True}]


def test_a_server_that_stumbles_is_asked_again(server: Server):
    server.replies = [(503, "busy", 0), (429, "slow down", 0), (200, GOOD, 0)]
    assert ask(server).startswith("[1] Rome")
    assert len(server.asked) == 3


def test_a_server_that_stays_broken_fails(server: Server):
    server.replies = [(500, "oops", 0)]
    with pytest.raises(ToolFailure, match=r"status 500 \(attempts: 3\)"):
        ask(server)


@pytest.mark.parametrize(
    ("reply", "message"), [((404, "nothing here", 0), "status 404: nothing here"), ((200, "no json", 0), "not JSON")]
)
def test_what_another_attempt_cannot_mend_fails_at_once(server: Server, reply: tuple[int, str, float], message: str):
    server.replies = [reply]
    with pytest.raises(ToolFailure, match=message):
        ask(server)
    assert len(server.asked) == 1


def test_an_answer_of_another_form_fails(server: Server):
    server.replies = [(200, '{"hits": []}', 0)]
    with pytest.raises(ToolFailure, match="document"):
        ask(server)


def test_a_slow_server_is_given_up_in_time(server: Server):
    server.replies = [(200, GOOD, 20.0)]
    begin = time.perf_counter()
    with pytest.raises(ToolFailure, match=r"no answer within 0.2 s \(attempts: 2\)"):
        ask(server, timeout=0.2, retries=1)
    assert time.perf_counter() - begin < 5


def test_a_server_that_is_gone_fails(server: Server):
    server.server_close()
    with pytest.raises(ToolFailure, match=r"Cannot connect.*\(attempts: 3\)"):
        ask(server)


def test_a_url_that_is_none():
    with pytest.raises(ToolFailure, match="is no URL"):
        asyncio.run(http_retriever("x", url="not a url"))


# Several servers, and a run that goes on


def several(servers: list[Server], queries: list[str], **settings: Any) -> list[str]:
    """One after the other, in one run."""

    async def ask() -> list[str]:
        urls = [server.url for server in servers]
        return [await http_retriever(query, **{"urls": urls, "retries": 2, **settings}) for query in queries]

    return asyncio.run(ask())


def test_servers_are_asked_in_turn_over_connections_that_stay_open():
    with serving() as one, serving() as two:
        one.replies = two.replies = [(200, GOOD, 0)]
        several([one, two], [str(n) for n in range(10)])
        assert (len(one.asked), len(two.asked)) == (5, 5)
        assert (len(one.callers), len(two.callers)) == (1, 1)


def test_a_server_that_died_is_passed_over_and_costs_one_attempt():
    with serving() as one, serving() as two:
        one.replies = two.replies = [(200, GOOD, 0)]
        two.server_close()
        answers = several([one, two], [str(n) for n in range(10)], retries=1)
        assert answers == ["[1] Rome\nA city.\n\n[2] B"] * 10 and len(one.asked) == 10


def test_a_slow_server_is_passed_over_too():
    with serving() as one, serving() as two:
        one.replies, two.replies = [(200, GOOD, 0)], [(200, GOOD, 20.0)]
        begin = time.perf_counter()
        several([one, two], [str(n) for n in range(10)], timeout=0.3)
        assert time.perf_counter() - begin < 5 and len(two.asked) == 1


def test_a_server_comes_back_after_its_rest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "REST", 0.0)
    with serving() as one, serving() as two:
        one.replies, two.replies = [(200, GOOD, 0)], [(503, "busy", 0), (200, GOOD, 0)]
        several([one, two], [str(n) for n in range(10)])
        assert len(two.asked) >= 5


def test_where_all_are_down_the_last_problem_is_told():
    with serving() as one, serving() as two:
        one.server_close()
        two.replies = [(500, "oops", 0)]
        with pytest.raises(ToolFailure, match=r"(Cannot connect|status 500).*\(attempts: 4\)"):
            several([one, two], ["x"], retries=3)


def test_a_query_is_asked_once_in_a_run_and_again_in_the_next(server: Server):
    server.replies = [(200, GOOD, 0)]
    assert len(set(several([server], ["a", "b", "a", "a"]))) == 1
    assert [asked["queries"] for asked in server.asked] == [["a"], ["b"]]
    several([server], ["a"])
    assert len(server.asked) == 3


def test_a_failure_is_not_remembered(server: Server):
    server.replies = [(404, "nothing", 0), (200, GOOD, 0)]

    async def ask() -> str:
        with pytest.raises(ToolFailure, match="status 404: nothing"):
            await http_retriever("a", url=server.url)
        return await http_retriever("a", url=server.url)

    assert asyncio.run(ask()).startswith("[1] Rome")


def test_the_cache_forgets_the_oldest(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "CACHED", 2)
    server.replies = [(200, GOOD, 0)]
    several([server], ["a", "b", "a", "c", "a", "b"])
    assert [asked["queries"][0] for asked in server.asked] == ["a", "b", "c", "b"]


def test_nothing_is_left_open(server: Server, recwarn: pytest.WarningsRecorder):
    server.replies = [(200, GOOD, 0)]
    several([server], ["a"])
    assert not len(client._clients) and not [warning for warning in recwarn if "nclosed" in str(warning.message)]

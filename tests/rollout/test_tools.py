"""Tools: look-ups, and a retriever against a real HTTP server that is well, slow, broken or gone."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runtime.rollout import tools
from runtime.rollout.failures import ToolFailure
from runtime.rollout.tools import http_retriever, lookup


def test_lookup():
    assert lookup("a", {"a": 1}) == "1" and lookup(" a ", {"a": "x"}) == "x" and lookup("b", {"a": 1}) == "unknown"
    assert lookup("b", "a=1 b=2") == "2" and lookup("big city", "a=1, big city = New York; c=3\n") == "New York"
    assert lookup("c", "a=1\nb=2\n") == "unknown" and lookup("", "") == "unknown"
    with pytest.raises(ToolFailure, match="not list"):
        lookup("a", [1])


class Server(ThreadingHTTPServer):
    """Answers with the next of `replies`, (status, body, seconds to wait), the last one for ever; keeps what it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[tuple[int, str, float]] = []
        self.asked: list[Any] = []
        self.url = f"http://127.0.0.1:{self.server_port}/retrieve"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(tools, "FIRST_PAUSE", 0.01)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


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


@pytest.mark.parametrize("reply", [(404, "nothing here", 0), (200, "no json", 0)])
def test_what_another_attempt_cannot_mend_fails_at_once(server: Server, reply: tuple[int, str, float]):
    server.replies = [reply]
    with pytest.raises(ToolFailure, match=r"\(attempts: 1\)"):
        ask(server)


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

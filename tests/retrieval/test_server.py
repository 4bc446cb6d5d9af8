"""The server over HTTP: the protocol, what it refuses, many at once, and the command as a process of its own."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drmas_dsl.errors import UserError
from runtime.retrieval.bm25 import Index
from runtime.retrieval.server import Server
from runtime.rollout.failures import ToolFailure
from runtime.rollout.tools import http_retriever
from tests.retrieval.test_bm25 import CORPUS, written

ROWS = [{"id": str(n), "contents": f"Fact {n}\nWord{n} stands alone, common stands in all."} for n in range(50)]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Index(ROWS), "127.0.0.1", 0, 3) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def post(server: Server, body: Any, path: str = "/retrieve") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def test_the_protocol(server: Server):
    status, reply = post(server, {"queries": ["word7", "common word9", "zebra"], "topk": 2, "return_scores": True})
    assert status == 200 and [len(hits) for hits in reply["result"]] == [1, 2, 0]
    hit = reply["result"][0][0]
    assert hit["document"] == ROWS[7] and hit["score"] > 0
    assert reply["result"][1][0]["document"]["id"] == "9"
    assert post(server, {"query": "word7"}) == (200, {"result": [[ROWS[7]]]})
    assert len(post(server, {"query": "common"})[1]["result"][0]) == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        ([], "not an object"),
        ({}, "`queries` must be"),
        ({"queries": [1]}, "`queries` must be"),
        ({"query": "a", "topk": 0}, "`topk` must be"),
        ({"query": "a", "topk": "3"}, "`topk` must be"),
    ],
)
def test_what_it_refuses_it_explains(server: Server, body: Any, message: str):
    status, reply = post(server, body)
    assert status == 400 and reply["error"].startswith(message)


def test_other_paths(server: Server):
    assert post(server, {"query": "a"}, "/search")[0] == 404
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request("GET", "/health")
    assert json.loads(connection.getresponse().read()) == {"documents": 50}


def test_many_at_once_get_each_their_own(server: Server):
    async def ask() -> list[str]:
        queries = [f"word{n % 50}" for n in range(200)]
        return await asyncio.gather(*(http_retriever(query, url=server.url, top_k=1) for query in queries))

    answers = asyncio.run(ask())
    assert answers == [f"[1] {ROWS[n % 50]['contents']}" for n in range(200)]


def test_a_port_that_is_taken(server: Server):
    with pytest.raises(UserError, match=r"cannot listen on 127\.0\.0\.1"):
        Server(Index(ROWS), "127.0.0.1", server.server_port, 3)
    with pytest.raises(UserError, match="cannot listen"):
        Server(Index(ROWS), "127.0.0.1", 70000, 3)


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "drmas_dsl.cli.main", "serve-retriever", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # Where the tests run as a shell's background job, SIGINT is ignored, and would be here.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_interrupted(tmp_path: Path, how: signal.Signals):
    process = command(str(written(tmp_path, CORPUS)), "--port", "0", "--top-k", "1")
    assert process.stdout
    said = process.stdout.readline()
    place = re.fullmatch(r"3 passages of .*corpus\.jsonl at (http://127\.0\.0\.1:\d+/retrieve) \(.*\)\n", said)
    assert place, said
    assert asyncio.run(http_retriever("Norway", url=place[1])).startswith("[1] Oslo")
    process.send_signal(how)
    rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest, errors) == (0, "Stopped.\n", "")


def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The command and the url that it serves."""
    process = command(*arguments)
    assert process.stdout
    url = re.search(r"http://\S+", process.stdout.readline())
    assert url
    return process, url[0]


def test_servers_are_killed_in_a_run(tmp_path: Path):
    corpus = str(written(tmp_path, ROWS))
    one, first = started(corpus, "--port", "0")
    two, second = started(corpus, "--port", "0")

    async def ask() -> None:
        settings: dict[str, Any] = {"urls": [first, second], "top_k": 1, "retries": 1}
        for number in range(4):
            assert (await http_retriever(f"word{number}", **settings)).startswith(f"[1] Fact {number}")
        one.kill()
        one.wait()
        for number in range(4, 8):
            assert (await http_retriever(f"word{number}", **settings)).startswith(f"[1] Fact {number}")
        two.kill()
        two.wait()
        with pytest.raises(ToolFailure, match=r"\(attempts: 2\)"):
            await http_retriever("word9", **settings)
        assert (await http_retriever("word1", **settings)).startswith("[1] Fact 1")  # what was found stays known

    try:
        asyncio.run(ask())
    finally:
        for process in (one, two):
            process.kill()
            process.communicate()


def test_the_command_says_what_is_wrong(tmp_path: Path):
    _, errors = (process := command(str(tmp_path / "none.jsonl"))).communicate(timeout=60)
    assert process.returncode == 1 and errors.startswith("error: cannot read ") and "Traceback" not in errors

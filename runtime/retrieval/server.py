"""An HTTP server over a BM25 index that speaks the protocol of Search-R1's retrieval server.

`POST /retrieve {"queries": […] or "query": …, "topk": 3, "return_scores": true}` gives, for each query,
`{"result": [[{"document": {…, "contents": …}, "score": 1.5}, …]]}`; without `return_scores` the documents alone. `GET /health` tells that
it is up. For a team on one machine; it has neither encryption nor access control.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from drmas_dsl.errors import UserError
from runtime.retrieval.bm25 import Index

PATH = "/retrieve"
MOST_BYTES = 16 << 20  # of a request
IDLE = 60.0  # seconds until a connection that says nothing is closed


class Server(ThreadingHTTPServer):
    """Serves `index` with a thread for each connection; `top_k` is for requests that do not say."""

    daemon_threads = True
    request_queue_size = 256  # the members of a step ask at once

    def __init__(self, index: Index, host: str, port: int, top_k: int) -> None:
        self.index = index
        self.top_k = top_k
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot listen on {host}:{port}: {error}", "choose another --port or --host") from error

    @property
    def url(self) -> str:
        """Where to ask."""
        return f"http://{self.server_address[0]!s}:{self.server_port}{PATH}"


class _BadRequest(Exception):
    """What is wrong with a request."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"  # connections stay open for the next query
    disable_nagle_algorithm = True
    timeout = IDLE

    def do_GET(self) -> None:
        if self.path == "/health":
            self._reply(HTTPStatus.OK, {"documents": len(self.server.index.documents)})
        else:
            self._reply(HTTPStatus.NOT_FOUND, {"error": f"ask with POST {PATH}"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True  # what follows cannot be told from the next request
            self._reply(HTTPStatus.BAD_REQUEST, {"error": f"Content-Length must be there and at most {MOST_BYTES}"})
            return
        body = self.rfile.read(int(length))
        if self.path.rstrip("/") != PATH:
            self._reply(HTTPStatus.NOT_FOUND, {"error": f"ask with POST {PATH}"})
            return
        try:
            self._reply(HTTPStatus.OK, {"result": self._found(body)})
        except _BadRequest as error:
            self._reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _found(self, body: bytes) -> list[list[Any]]:
        queries, top_k, with_scores = _request(body, self.server.top_k)
        found = [self.server.index.search(query, top_k) for query in queries]
        if not with_scores:
            return [[hit.document for hit in hits] for hits in found]
        return [[{"document": hit.document, "score": hit.score} for hit in hits] for hits in found]

    def _reply(self, status: HTTPStatus, content: Any) -> None:
        body = json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of requests: a step makes thousands."""


def _request(body: bytes, top_k: int) -> tuple[list[str], int, bool]:
    """The queries of a request, how many passages each wants, and whether with scores."""
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise _BadRequest(f"no JSON: {error}") from error
    if not isinstance(asked, dict):
        raise _BadRequest('not an object, e.g. {"queries": ["capital of Italy"], "topk": 3}')
    queries = asked.get("queries", asked.get("query"))
    queries = [queries] if isinstance(queries, str) else queries
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise _BadRequest("`queries` must be a list of texts, or `query` a text")
    wanted = asked.get("topk")
    wanted = top_k if wanted is None else wanted
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise _BadRequest("`topk` must be a whole number from 1")
    return queries, wanted, bool(asked.get("return_scores"))

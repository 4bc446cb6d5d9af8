"""`drmasc serve-retriever CORPUS`: a BM25 server for the tool `http_retriever`."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "corpus", type=Path, metavar="CORPUS", help='a JSONL file: {"id": …, "contents": …} on each line'
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="the port; 0 for a free one (default: 8000)")
    parser.add_argument("--top-k", type=_positive, default=3, help="passages of a query that does not say (default: 3)")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted or terminated."""
    from runtime.retrieval.bm25 import open_index
    from runtime.retrieval.server import Server

    index = open_index(arguments.corpus)
    with Server(index, arguments.host, arguments.port, arguments.top_k) as server:
        print(f"{len(index.documents)} passages of {arguments.corpus} at {server.url} (Ctrl-C ends it)", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
    return 0


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value

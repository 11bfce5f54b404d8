"""A model server that adds, for tests of the first hour."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Adder(BaseHTTPRequestHandler):
    """A model server that can add: `big-model` always, the other one only small numbers."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        a, b = map(int, re.findall(r"\d+", body["messages"][-1]["content"])[:2])
        total = a + b if body["model"] == "big-model" or max(a, b) < 50 else 0
        answer = {
            "id": "x", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", "content": str(total)}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14},
        }  # fmt: skip
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def adder() -> Iterator[str]:
    """Its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Adder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()

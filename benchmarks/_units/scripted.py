"""A model server that does what a script says, and remembers what it did: the truth about every call.

A request says in its text who it is (`project 3 request 17`); the script is a function of the upstream's name and that
number. `Served.calls` has one row for each call that arrived, in order.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Act = Literal["ok", "error", "busy", "hang", "nonsense", "cut", "refuse"]
WORDS = ("Good ", "morning ", "to ", "you.")


@dataclass(slots=True)
class ServedCall:
    """One call that arrived, and what became of it."""

    upstream: str
    request: int
    act: Act
    arrived: float
    ended: float = 0.0
    prompt: int = 0  # tokens that this server bills
    completion: int = 0
    cached: int = 0
    gone: bool = False  # the client left

    @property
    def fails(self) -> bool:
        return self.act not in ("ok", "refuse")


class Served:
    """Every upstream of one project, in one real server on a port of its own."""

    def __init__(self, script: Callable[[str, int, int], Act]) -> None:
        self.calls: list[ServedCall] = []
        self._script = script
        self._lock = threading.Lock()
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                served.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def url(self, upstream: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{upstream}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        upstream = handler.path.split("/")[1]
        found = re.search(r"request (\d+)", json.dumps(body["messages"]))
        request = int(found[1]) if found else -1
        with self._lock:
            earlier = sum(call.upstream == upstream and call.request == request for call in self.calls)
            act = self._script(upstream, request, earlier)
            call = ServedCall(upstream, request, act, time.time())
            self.calls.append(call)
        try:
            self._act(handler, body, call)
        except (BrokenPipeError, ConnectionResetError):
            call.gone = True
        call.ended = time.time()

    def _act(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], call: ServedCall) -> None:
        if call.act == "hang":  # longer than the upstream's time limit
            time.sleep(1.5)
        elif call.act == "error":
            _send(handler, 500, {"error": {"message": "down"}})
        elif call.act == "busy":
            _send(handler, 429, {"error": {"message": "slow down"}}, {"retry-after": "0.2"})
        elif call.act == "refuse":
            _send(handler, 400, {"error": {"message": "no such tool", "code": "bad_tool"}})
        elif call.act == "nonsense":
            _send(handler, 200, {"what": "is this"})
        else:
            self._reply(handler, body, call)

    def _reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], call: ServedCall) -> None:
        call.prompt, call.completion, call.cached = (
            100 + call.request % 50,
            20 + call.request % 7,
            40 * (call.request % 2),
        )
        usage = {
            "prompt_tokens": call.prompt,
            "completion_tokens": call.completion,
            "total_tokens": call.prompt + call.completion,
            "prompt_tokens_details": {"cached_tokens": call.cached},
        }
        head = {"id": f"up-{call.request}", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            message = {"role": "assistant", "content": "".join(WORDS)}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            content = json.dumps({**head, "object": "chat.completion", "choices": choices, "usage": usage}).encode()
            if call.act == "cut":  # in the middle of a whole answer
                _head(handler, 200, "application/json", len(content))
                handler.wfile.write(content[: len(content) // 2])
                handler.close_connection = True
                return
            _send(handler, 200, json.loads(content))
            return
        _head(handler, 200, "text/event-stream", None)
        chunk = {**head, "object": "chat.completion.chunk"}
        for number in range(200 if "Never end" in json.dumps(body["messages"]) else len(WORDS)):
            if call.act == "cut" and number == 2:
                return
            delta = {"index": 0, "delta": {"content": WORDS[number % len(WORDS)]}, "finish_reason": None}
            handler.wfile.write(_event({**chunk, "choices": [delta]}))
            handler.wfile.flush()
            if number >= len(WORDS):
                time.sleep(0.05)
        handler.wfile.write(_event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
        if (body.get("stream_options") or {}).get("include_usage"):
            handler.wfile.write(_event({**chunk, "choices": [], "usage": usage}))
        handler.wfile.write(b"data: [DONE]\n\n")


def _head(handler: BaseHTTPRequestHandler, status: int, media: str, length: int | None, **more: str) -> None:
    handler.send_response(status)
    handler.send_header("content-type", media)
    if length is not None:
        handler.send_header("content-length", str(length))
    for name, value in more.items():
        handler.send_header(name, value)
    handler.send_header("connection", "close")
    handler.end_headers()


def _send(handler: BaseHTTPRequestHandler, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    content = json.dumps(body).encode()
    _head(handler, status, "application/json", len(content), **(headers or {}))
    handler.wfile.write(content)


def _event(body: Any) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()

"""Callers whose replies an upstream never writes: the others decide, read and get replies meanwhile."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from tests.loop.running import until
from tests.serve.conftest import Running, served  # noqa: F401 — a fixture

SETTINGS = """
[upstreams.far]
url = "http://127.0.0.1:{port}/v1"
model = "m"
[tasks.reply]
kind = "reply"
base = "far"
[tasks.local]
kind = "reply"
base = "./nothing"
[tasks.plan]
kind = "factored"
heads = {{ op = ["ANSWER", "STOP"] }}
"""
ASK = {"task": "reply", "prompt": "t"}
CHAT = {"model": "headway/reply", "messages": [{"role": "user", "content": "t"}]}


@contextmanager
def silent() -> Iterator[tuple[int, list[socket.socket]]]:
    """The port of a server that takes every request and answers none, and the requests that it took."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.append(listening.accept()[0])

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield listening.getsockname()[1], taken
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                connection.close()


def send(server: Running, path: str, body: dict[str, Any], **headers: str) -> socket.socket:
    """A connection that has sent a request and reads nothing."""
    connection, data = server.raw(), json.dumps(body).encode()
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
    return connection


@pytest.mark.slow
def test_replies_that_never_come_take_no_thread_of_other_requests(
    served: Callable[..., Running],  # noqa: F811
) -> None:
    with silent() as (port, taken), ExitStack() as stack:
        server = served(SETTINGS.format(port=port))
        for path, body in (("/generate", ASK), ("/v1/chat/completions", CHAT)):
            for _ in range(24):
                stack.enter_context(send(server, path, body))
        until(lambda: len(taken) == 48, "every place without a key is taken")
        busy = server.client.post("/generate", json=ASK)
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "queue_full")
        assert server.client.post("/v1/decisions", json={"task": "plan", "text": "t"}).status_code == 201
        assert server.client.get("/v1/tasks").status_code == 200
        stack.enter_context(send(server, "/generate", ASK, Authorization=server.token["authorization"]))
        until(lambda: len(taken) == 49, "the reply of a caller with a key is asked for")


def test_options_of_a_stream_that_are_none_are_no_internal_error(
    served: Callable[..., Running],  # noqa: F811
) -> None:
    server = served(SETTINGS.format(port=1))
    given: list[Any] = ["x", 1, [1], {"include_usage": []}]
    for options in given:
        body = {**CHAT, "model": "headway/local", "stream": True, "stream_options": options}
        assert server.client.post("/v1/chat/completions", json=body).status_code == 200

"""A real server, both Python clients behind one interface, and a lossy network between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from headway.client import AsyncClient, Client
from tests.serve.conftest import Running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("served"))
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors


class Blocking:
    """An AsyncClient, called like a Client."""

    def __init__(self, *values: Any, wait: Callable[[float], None] = lambda _: None, **more: Any) -> None:
        async def waiting(seconds: float) -> None:
            wait(seconds)

        self._runner = asyncio.Runner()
        self._client = AsyncClient(*values, wait=waiting, **more)

    def __getattr__(self, name: str) -> Any:
        def call(*values: Any, **more: Any) -> Any:
            return self._runner.run(getattr(self._client, name)(*values, **more))

        return call

    def __repr__(self) -> str:
        return repr(self._client)

    @contextmanager
    def decision(self, *values: Any, **more: Any) -> Iterator[Any]:
        inner = self._client.decision(*values, **more)
        pick = self._runner.run(_entered(inner))
        try:
            yield pick
        except BaseException as error:
            if not self._runner.run(_left(inner, error)):
                raise
        else:
            self._runner.run(_left(inner, None))

    def events(self) -> Iterator[Any]:
        inner = self._client.events()
        try:
            while (event := self._runner.run(_next(inner))) is not None:
                yield event
        finally:
            self._runner.run(inner.aclose())  # type: ignore[attr-defined]  # it is a generator

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


async def _entered(manager: Any) -> Any:
    return await manager.__aenter__()


async def _left(manager: Any, error: BaseException | None) -> Any:
    return await manager.__aexit__(None if error is None else type(error), error, None)


async def _next(iterator: Any) -> Any:
    return await anext(iterator, None)


@pytest.fixture(params=["Client", "AsyncClient"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of one kind, and closes them. They do not wait between attempts."""
    made: list[Any] = []

    def new(url: str, key: str | None = None, **more: Any) -> Any:
        kind: Any = Client if request.param == "Client" else Blocking
        made.append(kind(url, key, **{"wait": lambda _: None, **more}))
        return made[-1]

    yield new
    for client in made:
        client.close()


class Network:
    """A proxy between client and server. `next` holds the fate of the next requests; all later ones go through.

    "lose answer": the server gets the request, the answer is lost.   "lose": the request is lost.
    (429, {"retry-after": "7"}, b"…"): this is the answer instead.
    """

    def __init__(self, target: str) -> None:
        self.next: list[Any] = []
        self.seen: list[str] = []
        network = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                network.seen.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                fate = network.next.pop(0) if network.next else "deliver"
                self.close_connection = True
                if fate == "lose":
                    return
                if isinstance(fate, tuple):
                    self.say(*fate)
                    return
                kept = {name: self.headers[name] for name in ("content-type", "authorization") if name in self.headers}
                with httpx.Client(trust_env=False) as client:
                    reply = client.request(self.command, target + self.path, content=body, headers=kept)
                if fate == "deliver":
                    self.say(reply.status_code, {}, reply.content)

            do_GET = do_POST = answer  # noqa: N815 — http.server's names

            def say(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body)), "connection": "close"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def network(server: Running) -> Iterator[Network]:
    between = Network(server.url)
    yield between
    between.close()

"""The client for calls to other servers: caps, time limits, retries, and hidden keys."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headway.kits.models.outgoing import CallFailed, Outgoing
from headway.kits.proxy.pool import AsyncOutgoing

KEY = "sk-nobody-may-see-this"
Answer = tuple[int, dict[str, str], bytes] | str
RETRY_LATER = {"retry-after": "7"}


class Peer:
    """A server with scripted answers: (status, headers, body), "hang up", "stall" or "endless"."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.cut = threading.Event()  # a client disconnected in the middle of an answer
        self._released = threading.Event()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                peer.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                answer = peer.answers.pop(0) if peer.answers else (200, {}, b'"fine"')
                if answer == "stall":
                    peer._released.wait(30)
                if isinstance(answer, tuple):
                    self.answer(*answer)
                    return
                self.close_connection = True
                if answer == "endless":
                    self.endless()

            def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def endless(self) -> None:
                self.send_response(200)
                self.end_headers()
                try:
                    while not peer._released.is_set():
                        self.wfile.write(b"x" * 1000)
                except OSError:
                    peer.cut.set()

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def close(self) -> None:
        self._released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


Post = Callable[..., bytes]


@pytest.fixture(params=["Outgoing", "AsyncOutgoing"])
def post(request: pytest.FixtureRequest, peer: Peer) -> Post:
    """One call by either client, with the same limits."""

    def directly(*, most_bytes: int = 10_000, timeout_s: float = 20.0) -> bytes:
        with Outgoing(peer.url, key=KEY, timeout_s=timeout_s, most_bytes=most_bytes) as server:
            return server.post("/embeddings", b"{}")

    async def awaited(most_bytes: int, timeout_s: float) -> bytes:
        pool = AsyncOutgoing(connections=2)
        until = time.monotonic() + timeout_s
        headers = [("authorization", f"Bearer {KEY}")]
        try:
            answer = await pool.open(
                f"{peer.url}/embeddings", b"{}", headers, timeout_s=timeout_s, until=until, most_bytes=most_bytes
            )
            try:
                return await answer.whole(until)
            finally:
                await answer.close()
        finally:
            await pool.aclose()

    def by_loop(*, most_bytes: int = 10_000, timeout_s: float = 20.0) -> bytes:
        return asyncio.run(awaited(most_bytes, timeout_s))

    return directly if request.param == "Outgoing" else by_loop


def shown(error: BaseException) -> str:
    """Everything about an error that a log could contain."""
    return f"{error!r} {error} {vars(error)} {''.join(traceback.format_exception(error))}"


def test_a_call_sends_only_json_and_the_key(peer: Peer, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no server listens there
    assert post() == b'"fine"'
    ((path, headers, body),) = peer.requests
    assert (path, body) == ("/v1/embeddings", b"{}")
    assert headers.pop("host") in peer.url
    assert headers == {
        "content-type": "application/json",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "headway",
        "authorization": f"Bearer {KEY}",
        "content-length": "2",
    }


@pytest.mark.parametrize(
    ("answer", "kind", "status", "temporary"),
    [
        ((429, RETRY_LATER, b"{}"), "busy", 429, True),
        ((503, {}, b"{}"), "status", 503, True),
        ((401, {}, f'{{"error": {{"message": "not {KEY}"}}}}'.encode()), "status", 401, False),
        ((302, {"location": "http://127.0.0.1:9/"}, b""), "status", 302, False),
        ((307, {"location": "/v1/elsewhere"}, b""), "status", 307, False),
        ((200, {"content-encoding": "gzip"}, b"\x1f\x8b"), "malformed", 200, False),
        ((200, {}, b"x" * 10_001), "too_large", 0, False),
        ("endless", "too_large", 0, False),
        ("hang up", "broken", 0, True),
    ],
)
def test_an_unusable_answer_is_explained_without_the_key(
    peer: Peer, post: Post, answer: Answer, kind: str, status: int, temporary: bool
) -> None:
    peer.answers = [answer]
    with pytest.raises(CallFailed) as caught:
        post()
    failure = caught.value
    assert (failure.kind, failure.status, failure.temporary) == (kind, status, temporary)
    assert failure.retry_after_s == (7.0 if status == 429 else None)
    assert KEY not in shown(failure)
    assert len(peer.requests) == 1, "redirects are not followed, and there are no retries by default"


def test_an_answer_of_exactly_the_cap_is_read(peer: Peer, post: Post) -> None:
    peer.answers = [(200, {}, b"x" * 10_000)]
    assert post() == b"x" * 10_000


def test_a_server_that_does_not_answer_times_out(peer: Peer, post: Post) -> None:
    peer.answers = ["stall"]
    with pytest.raises(CallFailed, match=r"did not answer within 0\.05 s") as caught:
        post(timeout_s=0.05)
    assert (caught.value.kind, caught.value.temporary) == ("timeout", True)


def test_an_endless_answer_is_cut_off(peer: Peer, post: Post) -> None:
    peer.answers = ["endless"]
    with pytest.raises(CallFailed) as caught:
        post(timeout_s=0.2, most_bytes=10**12)
    assert caught.value.kind == "timeout"
    assert peer.cut.wait(20), "its connection is closed"


def test_a_refused_connection_is_unreachable(peer: Peer, post: Post) -> None:
    peer.close()
    with pytest.raises(CallFailed) as caught:
        post()
    assert (caught.value.kind, caught.value.cause, caught.value.temporary) == ("unreachable", "ConnectError", True)


def test_a_temporary_failure_is_retried_with_growing_pauses_or_after_retry_after(peer: Peer) -> None:
    pauses: list[tuple[float, str]] = []

    def wait(pause_s: float, failure: CallFailed) -> bool:
        pauses.append((pause_s, failure.kind))
        return True

    peer.answers = [(429, RETRY_LATER, b"{}"), (500, {}, b""), "hang up", (503, {"retry-after": "3600"}, b"")]
    with Outgoing(peer.url, key=KEY) as server:
        assert server.post("/x", b"{}", tries=5, wait=wait) == b'"fine"'
    assert pauses == [(7.0, "busy"), (1.0, "status"), (4.0, "broken"), (20.0, "status")]


def test_attempts_end_by_number_by_the_caller_or_by_a_permanent_failure(peer: Peer) -> None:
    with Outgoing(peer.url, key=KEY) as server:
        peer.answers = [(500, {}, b"")] * 3
        with pytest.raises(CallFailed) as caught:
            server.post("/x", b"{}", tries=3, first_pause_s=0.0)
        assert (caught.value.tries, len(peer.requests)) == (3, 3)
        peer.answers = [(500, {}, b"")]
        with pytest.raises(CallFailed) as caught:
            server.post("/x", b"{}", tries=3, wait=lambda *_: False)
        assert (caught.value.tries, len(peer.requests)) == (1, 4)
        peer.answers = [(404, {}, b"")]
        with pytest.raises(CallFailed) as caught:
            server.post("/x", b"{}", tries=3, wait=lambda *_: True)
        assert (caught.value.tries, len(peer.requests)) == (1, 5)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": {"message": "no such\\n  model"}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"message": "no such model"}', "no such model"),
        (b"<html>", ""),
        (b"[]", ""),
        (b"[" * 20_000, ""),
        (f'{{"error": "{"a" * 190}{KEY}{KEY}"}}'.encode(), "a" * 190 + "******"),
        (b'{"error": "' + b"a" * 300 + b'"}', "a" * 200),
    ],
)
def test_the_reason_of_a_refusal_is_one_short_line_without_the_key(peer: Peer, body: bytes, reason: str) -> None:
    peer.answers = [(400, {}, body)]
    with Outgoing(peer.url, key=KEY) as server, pytest.raises(CallFailed) as caught:
        server.post("/x", b"{}")
    assert caught.value.reason == reason
    assert KEY not in f"{server!r} {shown(caught.value)}"


def test_a_closed_client_can_be_used_again(peer: Peer) -> None:
    server = Outgoing(peer.url)
    for _ in range(2):
        assert server.post("/x", b"{}") == b'"fine"'
        server.close()
    assert "authorization" not in peer.requests[0][1]


def test_chunks_of_an_answer_count_towards_its_cap_and_an_open_answer_can_be_cut(peer: Peer) -> None:
    async def main() -> None:
        pool = AsyncOutgoing(connections=1)
        limits = {"timeout_s": 20.0, "until": time.monotonic() + 20.0}
        peer.answers = ["endless", (422, {"x-request-id": "7"}, b"x" * 100_000)]
        answer = await pool.open(f"{peer.url}/x", b"{}", [], most_bytes=500_000, **limits)
        assert await answer.piece(20.0)
        with pytest.raises(CallFailed) as caught:
            while await answer.piece(20.0):
                pass
        assert caught.value.kind == "too_large"
        await answer.close()
        refused = await pool.open(f"{peer.url}/x", b"{}", [], most_bytes=500_000, usable=frozenset({422}), **limits)
        assert (refused.status, refused.headers["x-request-id"]) == (422, "7")
        beginning = await refused.beginning(time.monotonic() + 20.0)
        assert 65_536 <= len(beginning) <= 100_000
        await refused.close()
        await pool.aclose()

    asyncio.run(main())
    assert peer.cut.wait(20)

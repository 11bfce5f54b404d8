"""An embedding endpoint over a real socket."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.models.embedding_endpoint import EndpointEncoder
from headway.nouns.errors import Damaged, HeadwayError, InvalidSettings, Unavailable
from tests.families import encoder

KEY = "sk-a-very-secret-key"


class Embeddings:
    """A small server: the requests that it received, and scripted answers in order instead of vectors."""

    def __init__(self, width: int = 1536) -> None:
        self.width = width
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.odd: list[tuple[int, dict[str, str], bytes]] = []
        self.url = ""

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if self.odd:
            return self.odd.pop(0)
        rows = [{"index": at, "embedding": self.vector(text)} for at, text in enumerate(body["input"])]
        return 200, {}, json.dumps({"object": "list", "data": rows[::-1]}).encode()

    def vector(self, text: str) -> list[float]:
        return np.random.default_rng(sum(text.encode())).normal(size=self.width).tolist()


@contextmanager
def serving(width: int = 1536) -> Iterator[Embeddings]:
    server_state = Embeddings(width)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server_state.asked.append({"path": self.path, **body})
            server_state.keys.append(self.headers.get("authorization"))
            status, headers, content = server_state.answer(body)
            if status == 0:  # hang up
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        server_state.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield server_state
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Embeddings]:
    with serving() as server_state:
        yield server_state


@pytest.fixture
def pauses() -> list[float]:
    return []


def made(server: Embeddings, pauses: list[float], **more: Any) -> EndpointEncoder:
    return EndpointEncoder(server.url, "embed-small", sleep=pauses.append, **more)


def test_texts_are_sent_in_batches_and_come_back_in_order(server: Embeddings, pauses: list[float]) -> None:
    asks = made(server, pauses, key=KEY)
    texts = [f"text {n}" for n in range(150)]
    vectors = asks.encode([*texts[:70], "", "  ", *texts[70:]])
    assert vectors.shape == (152, 1536)
    assert [len(request["input"]) for request in server.asked] == [64, 64, 22]
    assert {request["path"] for request in server.asked} == {"/v1/embeddings"}
    assert {request["model"] for request in server.asked} == {"embed-small"}
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert not vectors[70:72].any(), "an empty text is not sent"
    wanted = np.array(server.vector("text 149"))
    assert vectors[-1] == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-7)
    assert np.linalg.norm(np.delete(vectors, [70, 71], axis=0), axis=1) == pytest.approx(1.0)
    assert pauses == []
    asks.close()


def test_a_busy_server_is_retried_with_growing_pauses(
    server: Embeddings, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    server.odd = [
        (429, {"retry-after": "7"}, b"{}"),
        (503, {}, f'{{"error": {{"message": "no, {KEY}"}}}}'.encode()),
        (0, {}, b""),
    ]
    asks = made(server, pauses, key=KEY)
    with caplog.at_level(logging.WARNING):
        assert asks.encode(["hello"]).any()
    assert pauses == [7.0, 1.0, 4.0]
    assert len(server.asked) == 4
    assert KEY not in caplog.text
    assert KEY not in repr(asks)
    asks.close()


def test_an_unreachable_server_is_an_error_and_not_a_vector(server: Embeddings, pauses: list[float]) -> None:
    server.odd = [(500, {}, b"oops")] * 9
    asks = made(server, pauses)
    with pytest.raises(Unavailable, match="5 tries: it answered 500") as caught:
        asks.encode(["hello"])
    assert caught.value.code == "encoder_unreachable"
    asks.close()
    unreachable = EndpointEncoder("http://127.0.0.1:9/v1", "m", sleep=pauses.append)
    with pytest.raises(Unavailable, match="ConnectError"):
        unreachable.encode(["hello"])
    unreachable.close()


def test_a_caller_waits_for_a_limited_time(server: Embeddings, pauses: list[float]) -> None:
    server.odd = [(429, {"retry-after": "15"}, b"{}")] * 9
    asks = made(server, pauses, timeout_s=5.0)
    with pytest.raises(Unavailable, match=r"1 tries: it is busy \(429\)"):
        asks.encode(["hello"])
    assert pauses == []
    asks.close()


@pytest.mark.parametrize(
    ("odd", "code", "says"),
    [
        ((401, {}, b'{"error": {"message": "bad key sk-a-very-secret-key"}}'), "encoder_refused", "bad key"),
        ((404, {}, b'{"error": "no such model"}'), "encoder_refused", "no such model"),
        ((302, {"location": "http://127.0.0.1:9/"}, b""), "encoder_refused", "302"),
        ((200, {}, b"<html>"), "encoder_answer", "does not contain vectors"),
        ((200, {"content-encoding": "gzip"}, b"\x1f\x8b"), "encoder_answer", "compressed its answer"),
        ((200, {}, b"[" * 100_000), "encoder_answer", "does not contain vectors"),
        ((200, {}, b'{"data": []}'), "encoder_answer", "0 vectors for 1 texts"),
        ((200, {}, b'{"data": [{"embedding": "text"}]}'), "encoder_answer", "does not contain vectors"),
        ((200, {}, json.dumps({"data": [{"embedding": [0.5] * 768}]}).encode()), "encoder_width", "width 768"),
        ((200, {}, json.dumps({"data": [{"embedding": [float("nan")] * 1536}]}).encode()), "encoder_answer", "finite"),
        ((200, {}, json.dumps({"data": [{"index": 3, "embedding": [1.0] * 1536}]}).encode()), "encoder_answer", "3"),
    ],
)
def test_an_invalid_answer_is_a_clear_error(
    server: Embeddings, pauses: list[float], odd: tuple[int, dict[str, str], bytes], code: str, says: str
) -> None:
    server.odd = [odd]
    asks = made(server, pauses, key=KEY)
    with pytest.raises(HeadwayError, match=says) as caught:
        asks.encode(["hello"])
    assert caught.value.code == code
    assert KEY not in str(caught.value)
    assert pauses == []
    asks.close()


def test_duplicate_rows_are_refused(server: Embeddings, pauses: list[float]) -> None:
    row = {"index": 0, "embedding": [1.0] * 1536}
    server.odd = [(200, {}, json.dumps({"data": [row, row]}).encode())]
    asks = made(server, pauses)
    with pytest.raises(Damaged, match="the index 0"):
        asks.encode(["a", "b"])
    asks.close()


def test_a_text_is_encoded_once_per_project(tmp_path: Path) -> None:
    with serving(width=8) as server:
        spec = {"url": server.url, "model": "m", "width": 8}
        for _ in range(2):  # two processes, one after the other
            asks: Any = encoder(spec, vectors=tmp_path / "vectors.db")
            first = asks.encode(["one", "two", "one"])
            assert np.array_equal(asks.encode(["two"])[0], first[1])
            assert np.array_equal(asks.uncached().encode(["two"])[0], first[1]), "cached texts are not requested again"
            asks.close()
        assert [request["input"] for request in server.asked] == [["one", "two"]]
        other: Any = encoder({**spec, "model": "other"}, vectors=tmp_path / "vectors.db")
        other.encode(["one"])
        other.close()
        assert len(server.asked) == 2, "another model gives another vector"


def test_the_version_names_address_model_and_width() -> None:
    version = EndpointEncoder("http://a/v1/", "text-embedding-3-small").version
    assert version.startswith("endpoint-1-text-embedding-3-small-")
    assert version.endswith("-w1536")
    others = [
        EndpointEncoder("http://b/v1", "text-embedding-3-small"),
        EndpointEncoder("http://a/v1", "text-embedding-3-large"),
        EndpointEncoder("http://a/v1", "text-embedding-3-small", width=512),
    ]
    assert version == EndpointEncoder("http://a/v1", "text-embedding-3-small").version
    assert len({version, *(other.version for other in others)}) == 4


def test_a_missing_key_is_named_when_it_is_needed() -> None:
    asks: Any = encoder({"url": "http://127.0.0.1:9/v1", "model": "m", "key_env": "EMBED_KEY"})
    with pytest.raises(InvalidSettings, match="EMBED_KEY is not set"):
        asks.encode(["hello"])
    with pytest.raises(InvalidSettings, match="has no setting 'batches'"):
        encoder({"url": "http://127.0.0.1:9/v1", "model": "m", "batches": 3})

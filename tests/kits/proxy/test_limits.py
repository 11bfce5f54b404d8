"""Limits on hostile or broken upstreams and on hostile clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.kits.proxy import upstreams
from headway.kits.proxy.breaker import Breakers
from headway.kits.proxy.outages import OutageLog
from headway.kits.proxy.upstreams import KeyFilter, Upstreams
from headway.nouns.errors import Busy
from headway.settings import Settings
from tests.kits.proxy.conftest import ASK, Proxy
from tests.kits.proxy.upstream import WORDS, Upstream

WAYS = (
    "ok", "huge", "lying-length", "huge-event", "forever", "forever-quiet", "comments", "never-closes", "silent",
    "redirect", "odd-headers",
)  # fmt: skip
EACH = "timeout_s = 1.5"
MORE = "[server]\nmax_body_bytes = 100000\nmax_batch_bytes = 100000\n"


def last_error(text: str) -> str:
    return str(json.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))["error"]["code"])


@pytest.mark.parametrize(
    ("how", "stream", "status", "code"),
    [
        ("huge", False, 502, "upstream_too_large"),
        ("lying-length", False, 502, "upstream_broken"),
        ("silent", False, 504, "upstream_timeout"),
        ("silent", True, 504, "upstream_timeout"),
        ("comments", True, 504, "upstream_timeout"),
        ("redirect", False, 502, "upstream_status"),
    ],
)
def test_an_upstream_that_exceeds_its_caps_has_failed(
    ways: Proxy, upstream: Upstream, how: str, stream: bool, status: int, code: str
) -> None:
    answer = ways.chat(model=f"headway/only-{how}", stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert len(upstream.received) == 1  # a redirect is not followed either
    decision = ways.decisions(f"only-{how}")[-1]
    assert ways.outcome(decision.id) == "failed"


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("huge-event", "upstream_too_large"),
        ("forever", "upstream_too_large"),  # endless events, as fast as they are read
        ("forever-quiet", "upstream_timeout"),  # one event, and then silence
    ],
)
def test_an_endless_stream_is_ended(ways: Proxy, upstream: Upstream, how: str, code: str) -> None:
    answer = ways.chat(model=f"headway/only-{how}", stream=True)
    assert last_error(answer.text) == code
    (decision,) = ways.decisions(f"only-{how}")
    assert ways.outcome(decision.id) == "failed"
    assert len(answer.content) < 1_000_000
    if how != "huge-event":
        assert upstream.gone.wait(10)  # and the upstream's connection is closed


def test_an_upstream_that_stays_open_after_its_last_event_is_disconnected(ways: Proxy, upstream: Upstream) -> None:
    answer = ways.chat(model="headway/only-never-closes", stream=True)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert upstream.gone.wait(10)
    assert "failed" not in ways.signals(answer.headers["x-headway-decision"])


@pytest.mark.parametrize("model", ["headway/only-forever", "bad-forever"])
def test_a_client_that_disconnects_closes_the_upstreams_connection(
    proxy: Callable[..., Proxy], upstream: Upstream, model: str
) -> None:
    running = proxy({"bad-forever": "forever"}, more='[tasks.only-forever]\nactions = ["bad-forever"]')
    with running.client.stream("POST", "/v1/chat/completions", json={**ASK, "model": model, "stream": True}) as answer:
        next(answer.iter_bytes())
    assert upstream.gone.wait(10)
    if model.startswith("headway/"):
        (decision,) = running.decisions("only-forever")
        while "client_gone" not in running.signals(decision.id):
            pass  # the signal follows the disconnect; the test's time limit ends this
        assert "failed" not in running.signals(decision.id)


def test_a_client_that_does_not_read_slows_the_upstream_down(proxy: Callable[..., Proxy], upstream: Upstream) -> None:
    """The proxy buffers nothing: the upstream can send only what fits into the socket buffers."""
    running = proxy({"small": "forever"})
    with running.client.stream("POST", "/v1/chat/completions", json={**ASK, "stream": True}) as answer:
        taken = len(next(answer.iter_bytes()))
        before = -1
        while before != upstream.sent:  # until the upstream stops sending
            before = upstream.sent
            for _ in range(20):
                running.client.get("/health")
        assert upstream.sent < 32_000_000
        assert taken < 1_000_000
    assert upstream.gone.wait(10)


def test_the_clients_secrets_are_not_forwarded(ways: Proxy, upstream: Upstream) -> None:
    secrets = {
        "authorization": "Bearer sk-mine",
        "x-api-key": "sk-mine",
        "cookie": "a=sk-mine",
        "openai-organization": "sk-mine",
        "x-custom": "sk-mine",
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    }
    assert ways.chat(secrets, model="headway/only-ok").status_code == 200
    (received,) = upstream.received
    assert set(received.headers) == {
        "host", "content-type", "accept", "accept-encoding", "user-agent", "content-length",
    }  # fmt: skip
    assert "sk-mine" not in str(received)


def test_the_upstreams_headers_are_not_forwarded(ways: Proxy, upstream: Upstream) -> None:
    answer = ways.chat(model="headway/only-ok")
    assert answer.headers["x-request-id"] == "req_17"
    assert "x-evil" not in answer.headers
    assert "set-cookie" not in answer.headers
    ways.chat(model="headway/only-ok")
    assert all("cookie" not in request.headers for request in upstream.received)


def test_an_odd_header_of_the_upstream_is_dropped(ways: Proxy) -> None:
    answer = ways.chat(model="headway/only-odd-headers")
    assert answer.status_code in (200, 502)  # h11 may refuse the control character outright
    assert "x-request-id" not in answer.headers


@pytest.mark.parametrize("field", ["url", "base_url", "upstream", "api_base"])
def test_no_field_of_a_request_is_an_address(ways: Proxy, upstream: Upstream, field: str) -> None:
    ways.chat(model="headway/only-ok", **{field: f"{upstream.url('evil')}/chat/completions"})
    for model in (f"{upstream.url('evil')}", "../evil", "bad-ok/../../evil", "headway/only-ok\r\nx: y"):
        assert ways.chat(model=model).status_code in (404, 422)
    assert [request.path for request in upstream.received] == ["/ok/v1/chat/completions"]


def test_a_key_goes_to_its_own_upstream_only(proxy: Callable[..., Proxy], upstream: Upstream) -> None:
    running = proxy(
        {"small": "ok", "large": "ok"},
        {"SMALL_KEY": "sk-small"},
        more=f"""
[upstreams.keyed]
url = "{upstream.url()}"
model = "keyed-model"
key_env = "SMALL_KEY"
[upstreams.locked]
url = "{upstream.url()}"
model = "m"
key_env = "NOT_SET"
[tasks.some]
actions = ["locked", "small"]
[tasks.none]
actions = ["locked"]
""",
    )
    running.chat(model="keyed")
    running.chat(model="small")
    running.client.post("/v1/messages", json={**ASK, "model": "keyed", "max_tokens": 5})
    assert upstream.received[0].headers["authorization"] == "Bearer sk-small"
    assert "authorization" not in upstream.received[1].headers
    assert upstream.received[2].headers["x-api-key"] == "sk-small"
    # Without its key an upstream is not a candidate, and is refused by name.
    decision = running.decision(running.chat(model="headway/some").json()["id"])
    assert [candidate.name for candidate in decision.candidates] == ["small"]
    assert running.chat(model="headway/none").json()["error"]["code"] == "no_upstream"
    assert running.chat(model="locked").json()["error"]["code"] == "missing_key"


def test_an_upstream_that_repeats_its_key_does_not_tell_the_client(
    proxy: Callable[..., Proxy], upstream: Upstream
) -> None:
    key = "sk-0123456789abcdefghij"
    tables = [
        f'[upstreams.{how}]\nurl = "{upstream.url(how)}"\nmodel = "m"\nkey_env = "SMALL_KEY"\n'
        for how in ("repeats-key", "streams-key")
    ]
    running = proxy({"small": "ok"}, {"SMALL_KEY": key}, more="\n".join(tables))
    refused = running.chat(model="repeats-key")
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, "bad key: Bearer [redacted:api-key]")
    assert key not in str(refused.headers)
    message = {**ASK, "model": "repeats-key", "max_tokens": 5}
    assert key not in running.client.post("/v1/messages", json=message).text
    streamed = running.chat(model="streams-key", stream=True)
    assert "Bearer [redacted:api-key]" in streamed.text
    assert key not in streamed.text
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert key not in running.stop()


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_a_key_is_cut_out_wherever_a_stream_is_split(size: int) -> None:
    key = "sk-sk-sk-0123"
    text = f"a {key} b {key}{key} sk-sk-0 sk-sk-sk-012 {key[:-1]}".encode()
    cutter = KeyFilter(key)
    clean = b"".join(cutter.feed(text[place : place + size]) for place in range(0, len(text), size)) + cutter.rest()
    assert clean == text.replace(key.encode(), b"[redacted:api-key]")


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"max_tokens": 50}),
        ({"max_tokens": 10}, {"max_tokens": 10}),
        ({"max_tokens": 99}, {"max_tokens": 50}),
        ({"max_completion_tokens": 99}, {"max_completion_tokens": 50}),
        ({"max_tokens": "all"}, {"max_tokens": 50}),
    ],
)
def test_an_upstreams_cap_on_tokens_holds(
    capped: Proxy, upstream: Upstream, asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    capped.chat(**asked)
    body = upstream.received[0].json
    assert {name: value for name, value in body.items() if name.startswith("max_")} == sent


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory, running_upstream: Upstream) -> Any:
    folder = tmp_path_factory.mktemp("capped")
    (folder / "headway.toml").write_text(
        f'[upstreams.small]\nurl = "{running_upstream.url()}"\nmodel = "m"\nmax_tokens = 50\n'
    )
    running = Proxy(folder, {})
    yield running
    running.stop()


def test_too_many_calls_at_once_are_refused_before_anything_is_decided(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(upstreams, "MOST_CALLS", 2)
    with headway.open(tmp_path, environ={}) as project:
        breakers = Breakers({}, project.clock, OutageLog(project))
    pool = Upstreams(Settings(directory=tmp_path), breakers, most_bytes=1000)
    first, second = pool.take(), pool.take()
    with pytest.raises(Busy, match="2 calls"):
        pool.take()
    second.free()
    second.free()
    pool.take().free()
    first.free()
    assert pool.calls == 0


def test_a_body_over_the_limit_never_reaches_an_upstream(ways: Proxy, upstream: Upstream) -> None:
    assert ways.chat(model="headway/only-ok", more="x" * 100_000).status_code == 413
    assert upstream.received == []


def test_the_text_arrives_complete_after_all_failures(ways: Proxy) -> None:
    assert ways.chat(model="headway/only-ok").json()["choices"][0]["message"]["content"] == "".join(WORDS)
    assert "headway_upstream_calls 0" in ways.client.get("/metrics").text

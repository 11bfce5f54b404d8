"""Responses and messages: routed like chat completions, each in its own format."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from headway.kits.proxy.routing import traceparent_of
from tests.kits.proxy.conftest import Proxy
from tests.kits.proxy.upstream import ODD, USAGE, WORDS, Upstream

WAYS = ("ok", "status-500", "says-failed", "says-failed-later", "error-first", "error-later", "unfinished", "refuse")
RESPONSES: dict[str, Any] = {"input": "Good morning", "instructions": "Be kind"}
MESSAGES: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Good morning"}],
    "system": "Be kind",
    "max_tokens": 50,
}
PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
FORMATS = [("responses", RESPONSES), ("messages", MESSAGES)]


def post(ways: Proxy, path: str, body: dict[str, Any], task: str = "ok", **more: Any) -> httpx.Response:
    return ways.client.post(f"/v1/{path}", json={**body, "model": f"headway/{task}", **more})


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    rows = [part.split("\n") for part in answer.text.split("\n\n") if part]
    return [(row[0].removeprefix("event: "), json.loads(row[1].removeprefix("data: "))) for row in rows]


@pytest.mark.parametrize(("path", "body"), FORMATS)
def test_a_whole_answer_has_the_decisions_id(ways: Proxy, upstream: Upstream, path: str, body: dict[str, Any]) -> None:
    answer = post(ways, path, body, tools=[{"name": "x", "n": 1}])
    reply = answer.json()
    decision = ways.decision(reply["id"])
    assert answer.headers["x-headway-decision"] == decision.id
    assert reply["headway"]["upstream"] == "bad-ok"
    assert ODD in answer.text
    assert "".join(WORDS) in answer.text
    assert decision.situation.text == "Good morning"
    assert decision.situation.state["prompt_tokens_about"] == 5
    signals = ways.signals(decision.id)
    assert (signals["prompt_tokens"], signals["completion_tokens"], signals["cost_usd"]) == (*USAGE, 0.0)
    (received,) = upstream.received
    assert received.path == f"/ok/v1/{path}"
    assert received.json == {**body, "model": "bad-ok", "tools": [{"name": "x", "n": 1}]}


@pytest.mark.parametrize(("path", "body"), FORMATS)
def test_a_stream_has_the_decisions_id(ways: Proxy, path: str, body: dict[str, Any]) -> None:
    answer = post(ways, path, body, stream=True)
    rows = events(answer)
    identifier = answer.headers["x-headway-decision"]
    assert [name for name, _ in rows] == [row["type"] for _, row in rows]
    holding = [row.get("response") or row.get("message") for _, row in rows if "response" in row or "message" in row]
    assert {call["id"] for call in holding} == {identifier}
    assert all(call["headway"]["decision"] == identifier for call in holding)
    deltas = [row["delta"] for _, row in rows if row["type"].endswith("_delta") or row["type"].endswith(".delta")]
    words = [delta if isinstance(delta, str) else delta.get("text", "") for delta in deltas]
    assert "".join(words) == "".join(WORDS)
    signals = ways.signals(identifier)
    assert (signals["prompt_tokens"], signals["completion_tokens"]) == USAGE
    assert 0.0 < signals["first_token_s"] <= signals["latency_s"]


@pytest.mark.parametrize(("path", "body"), FORMATS)
@pytest.mark.parametrize(("how", "stream"), [("status-500", False), ("error-first", True), ("says-failed", False)])
def test_a_failed_upstream_is_followed_by_another(
    ways: Proxy, path: str, body: dict[str, Any], how: str, stream: bool
) -> None:
    if path == "messages" and how == "says-failed":
        how = "status-500"
    before = len(ways.decisions(how))
    answer = post(ways, path, body, how, stream=stream)
    assert answer.status_code == 200
    first, second = ways.decisions(how)[before:]
    assert (ways.signals(first.id)["failed"], answer.headers["x-headway-decision"]) == (1.0, first.id)
    assert (second.unit, ways.outcome(first.id)) == (first.id, "pending")


@pytest.mark.parametrize(("path", "body"), FORMATS)
@pytest.mark.parametrize("how", ["error-later", "unfinished"])
def test_a_stream_that_breaks_ends_with_an_error_event(ways: Proxy, path: str, body: dict[str, Any], how: str) -> None:
    answer = post(ways, path, body, how, stream=True)
    name, row = events(answer)[-1]
    assert (name, row["type"]) == ("error", "error")
    assert row["error"]["code"] in ("upstream_error", "upstream_broken")
    assert ways.outcome(answer.headers["x-headway-decision"]) == "failed"


def test_a_response_with_status_failed_has_failed(ways: Proxy) -> None:
    answer = post(ways, "responses", RESPONSES, "says-failed-later", stream=True)
    assert events(answer)[-1][0] == "response.failed"
    assert ways.outcome(answer.headers["x-headway-decision"]) == "failed"


@pytest.mark.parametrize(("path", "body"), FORMATS)
def test_a_refusal_is_passed_on(ways: Proxy, path: str, body: dict[str, Any]) -> None:
    answer = post(ways, path, body, "refuse")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_tool")


def test_an_error_has_the_shape_that_anthropics_sdk_reads(ways: Proxy) -> None:
    answer = post(ways, "messages", MESSAGES, "nothing")
    body = answer.json()
    assert (answer.status_code, body["type"], body["error"]["type"]) == (404, "error", "not_found_error")
    assert body["error"]["code"] == "unknown_task"


def test_a_response_that_continues_another_goes_to_the_same_upstream(ways: Proxy, upstream: Upstream) -> None:
    first = post(ways, "responses", RESPONSES, "says-failed").json()  # after a failover: it is at `good`
    assert first["headway"]["upstream"] == "good"
    upstream.forget()
    second = post(ways, "responses", {"input": "Go on"}, "says-failed", previous_response_id=first["id"])
    answer = second.json()
    decision = ways.decision(answer["id"])
    assert [candidate.name for candidate in decision.candidates] == ["good"]
    assert decision.propensity == 1.0
    assert answer["previous_response_id"] == first["id"]
    (received,) = upstream.received
    assert received.json["previous_response_id"].startswith("resp_")
    streamed = post(
        ways, "responses", {"input": "Go on"}, "says-failed", previous_response_id=answer["id"], stream=True
    )
    assert {row["response"]["previous_response_id"] for _, row in events(streamed) if "response" in row} == {
        answer["id"]
    }


def test_an_unknown_response_cannot_be_continued(ways: Proxy, upstream: Upstream) -> None:
    answer = post(ways, "responses", RESPONSES, previous_response_id="dec_" + "0" * 32)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_decision")
    chat = ways.chat(model="headway/only-refuse").headers["x-headway-decision"]
    answer = post(ways, "responses", RESPONSES, previous_response_id=chat)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_response")
    assert len(upstream.received) == 1
    post(ways, "responses", RESPONSES, previous_response_id="resp_theirs")
    assert upstream.received[-1].json["previous_response_id"] == "resp_theirs"  # not ours: unchanged


def test_only_anthropics_version_and_beta_headers_are_forwarded(ways: Proxy, upstream: Upstream) -> None:
    headers = {"anthropic-version": "2099-01-01", "anthropic-beta": "a-2099,b", "x-api-key": "sk-mine", "x-other": "1"}
    ways.client.post("/v1/messages?beta=true", json={**MESSAGES, "model": "headway/ok"}, headers=headers)
    (received,) = upstream.received
    assert received.path == "/ok/v1/messages?beta=true"
    assert (received.headers["anthropic-version"], received.headers["anthropic-beta"]) == ("2099-01-01", "a-2099,b")
    assert "sk-mine" not in str(received)
    upstream.forget()
    odd = {"anthropic-version": "é\t1", "anthropic-beta": "x" * 600}
    ways.client.post(
        "/v1/messages",
        json={**MESSAGES, "model": "headway/ok"},
        headers={name: value.encode() for name, value in odd.items()},
    )
    assert upstream.received[0].headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in upstream.received[0].headers


@pytest.mark.parametrize(("path", "body"), FORMATS)
def test_an_episode_in_the_url_applies_to_every_format(ways: Proxy, path: str, body: dict[str, Any]) -> None:
    answer = ways.client.post(f"/e/run-{path}/v1/{path}", json={**body, "model": "headway/ok"})
    assert ways.decision(answer.json()["id"]).situation.episode == f"run-{path}"


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        (PARENT, True),
        (PARENT.replace("00-", "01-"), False),
        (f"00-{'0' * 32}-{'b' * 16}-01", False),
        (f"00-{'a' * 32}-{'0' * 16}-01", False),
        (PARENT.upper(), False),
        (PARENT + "\n", False),
        ("", False),
    ],
)
def test_only_a_trace_context_is_kept(header: str, kept: bool) -> None:
    assert bool(traceparent_of(header)) is kept

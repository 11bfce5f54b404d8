"""Chat completions through the proxy: the upstream's answer under the decision's id, and everything logged."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.kits.proxy.conftest import ASK, Proxy
from tests.kits.proxy.upstream import ODD, USAGE, WORDS, Upstream


def events(text: str) -> list[str]:
    return [part.removeprefix("data: ") for part in text.split("\n\n") if part]


def test_the_completions_id_is_the_decisions_id(served: Proxy, upstream: Upstream) -> None:
    answer = served.chat()
    body = answer.json()
    decision = served.decision(body["id"])
    assert answer.status_code == 200
    assert answer.headers["x-headway-decision"] == decision.id
    assert body["choices"][0]["message"]["content"] == "".join(WORDS)
    assert body["headway"] == {
        "decision": decision.id,
        "task": "route",
        "upstream": decision.action,
        "policy": decision.policy,
        "propensity": decision.propensity,
    }
    assert decision.situation.text == "Good morning"
    assert [candidate.name for candidate in decision.candidates] == ["small", "large"]
    assert decision.propensity == 0.5
    assert upstream.received[0].json["model"] == f"{decision.action}-model"


def test_everything_but_the_id_and_the_extras_is_the_upstreams_own_bytes(served: Proxy) -> None:
    assert ODD in served.chat().text
    assert served.chat(stream=True).text.count(ODD) == len(WORDS) + 2


def test_a_request_reaches_the_upstream_with_its_own_bytes(served: Proxy, upstream: Upstream) -> None:
    odd = '"tools":[{"type":"function","function":{"name":"look","x":1.50}}],"x_new":{ "a":1E2,"b":"caf\\u00e9" }'
    raw = f'{{"model":"headway/route","messages":[{{"role":"user","content":"hi"}}],{odd}}}'
    answer = served.client.post(
        "/v1/chat/completions", content=raw.encode(), headers={"content-type": "application/json"}
    )
    assert answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look"
    assert odd in upstream.received[0].raw.decode()


def test_fields_for_headway_never_reach_the_upstream(served: Proxy, upstream: Upstream) -> None:
    asked = {"role": "coder", "state": {"task_complexity_score": 0.9, "kind": "fix"}}
    decision = served.decision(served.chat(headway=asked, temperature=0.5).json()["id"])
    assert "headway" not in upstream.received[0].json
    assert upstream.received[0].json["temperature"] == 0.5
    assert decision.situation.role == "coder"
    assert decision.situation.state["task_complexity_score"] == 0.9
    assert decision.situation.state["kind"] == "fix"


@pytest.mark.parametrize(
    ("headers", "body", "role"),
    [
        ({"x-headway-role": "planner"}, {"headway": {"role": "coder"}}, "planner"),
        ({}, {"metadata": {"headway_role": "reviewer"}}, "reviewer"),
        ({}, {"metadata": "none"}, ""),
    ],
)
def test_the_role_comes_from_header_body_or_metadata(
    served: Proxy, headers: dict[str, str], body: dict[str, object], role: str
) -> None:
    assert served.decision(served.chat(headers, **body).json()["id"]).situation.role == role


def test_the_state_has_counts_that_are_known_before_the_call(served: Proxy) -> None:
    messages = [
        {"role": "system", "content": "s" * 40},
        {"role": "user", "content": [{"type": "text", "text": "u" * 40}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": "a" * 40},
        {"role": "user", "content": "again"},
        {"role": "tool", "tool_call_id": "1", "content": "t" * 5},
    ]
    reply = served.chat(messages=messages, tools=[{}, {}], max_completion_tokens=99, response_format={"type": "x"})
    situation = served.decision(reply.json()["id"]).situation
    assert situation.text == "again"
    assert dict(situation.state) == {
        "prompt_tokens_about": 33,
        "messages": 5,
        "user_turns": 2,
        "tools": 2,
        "images": 1,
        "structured": True,
        "stream": False,
        "max_tokens": 99,
        "primary_failure_count": 0,
    }


def test_tokens_cost_and_latency_are_signals(served: Proxy) -> None:
    identifier = served.chat().json()["id"]
    signals = served.signals(identifier)
    assert signals.keys() == {"latency_s", "prompt_tokens", "completion_tokens", "cost_usd", "http_status"}
    assert (signals["prompt_tokens"], signals["completion_tokens"]) == USAGE
    assert signals["cost_usd"] == pytest.approx((USAGE[0] * 1.0 + USAGE[1] * 2.0) / 1e6)
    assert 0.0 < signals["latency_s"] < 30.0
    assert served.labels(identifier)["http_status"] == "chatcmpl-7"


def test_a_stream_is_the_same_decision_in_pieces(served: Proxy, upstream: Upstream) -> None:
    answer = served.chat(stream=True)
    rows = events(answer.text)
    chunks = [json.loads(row) for row in rows[:-1]]
    assert answer.headers["content-type"] == "text/event-stream"
    assert rows[-1] == "[DONE]"
    assert {chunk["id"] for chunk in chunks} == {answer.headers["x-headway-decision"]}
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "".join(WORDS)
    assert [("headway" in chunk) for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    signals = served.signals(chunks[0]["id"])
    assert (signals["prompt_tokens"], signals["completion_tokens"]) == USAGE
    assert 0.0 < signals["first_token_s"] <= signals["latency_s"]
    assert upstream.received[0].json["stream_options"] == {"include_usage": True}


def test_usage_is_shown_only_if_requested(served: Proxy, upstream: Upstream) -> None:
    hidden = served.chat(stream=True, stream_options={"other": 1})
    assert "prompt_tokens" not in hidden.text
    assert upstream.received[0].json["stream_options"] == {"other": 1, "include_usage": True}
    assert '"prompt_tokens"' in served.chat(stream=True, stream_options={"include_usage": True}).text


def test_a_stream_is_not_buffered(proxy: Callable[..., Proxy], upstream: Upstream) -> None:
    running = proxy({"small": "gated"})
    with running.client.stream("POST", "/v1/chat/completions", json={**ASK, "stream": True}) as answer:
        pieces = answer.iter_text()
        seen = ""
        while WORDS[0] not in seen:  # the upstream waits until the client has its first word
            seen += next(pieces)
        assert WORDS[1] not in seen
        upstream.release()
        seen += "".join(pieces)
    assert seen.endswith("data: [DONE]\n\n")


def test_a_stream_in_single_bytes_with_other_line_ends_is_the_same(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "in-pieces"})
    rows = events(running.chat(stream=True).text.replace("\r\n", "\n"))
    chunks = [json.loads(row) for row in rows[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "".join(WORDS)
    assert running.outcome(chunks[0]["id"]) == "pending"


def test_a_stream_with_a_finish_reason_needs_no_done(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "no-done"})
    answer = running.chat(stream=True)
    assert "error" not in answer.text
    assert "failed" not in running.signals(answer.headers["x-headway-decision"])


def test_an_unknown_cost_is_omitted(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "no-usage"})
    signals = running.signals(running.chat().json()["id"])
    assert "cost_usd" not in signals
    assert "prompt_tokens" not in signals


def test_the_reward_settles_from_what_the_proxy_measured(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok"}, task="reward = { cost_usd = -1000.0 }")
    identifier = running.chat().json()["id"]
    with running.open() as project:
        outcome = project.outcome(identifier)
    assert outcome.status == "rewarded"
    assert outcome.reward == pytest.approx(-0.019)


def test_the_name_of_an_upstream_skips_the_decision(served: Proxy, upstream: Upstream) -> None:
    before = len(served.decisions())
    answer = served.chat(model="large")
    assert answer.json()["id"] == "chatcmpl-7"
    assert "x-headway-decision" not in answer.headers
    streamed = served.chat(model="large", stream=True)
    assert events(streamed.text)[-1] == "[DONE]"
    assert [request.json["model"] for request in upstream.received] == ["large-model"] * 2
    assert "stream_options" not in upstream.received[1].json
    assert len(served.decisions()) == before


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"model": "larg"}, 404, "model_not_found"),
        ({"model": "headway/rout"}, 404, "unknown_task"),
        ({"model": "headway/../x"}, 422, "bad_task_name"),
        ({"model": "headway/reply"}, 404, "unknown_task"),
        ({"model": None}, 422, "bad_model"),
        ({"headway": {"propensity": 1}}, 422, "bad_body"),
        ({"headway": {"episode": ""}}, 422, "bad_body"),
    ],
)
def test_errors_have_openais_shape(
    served: Proxy, upstream: Upstream, more: dict[str, object], status: int, code: str
) -> None:
    answer = served.chat(**more)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error.keys() == {"message", "type", "param", "code", "hint"}
    assert upstream.received == []


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b'{"model":' + b"[" * 100_000 + b"}", b'{"model":"x\\u0000"}'])
def test_an_invalid_request_is_a_422(served: Proxy, upstream: Upstream, body: bytes) -> None:
    answer = served.client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert upstream.received == []


def test_a_task_without_actions_chooses_among_all_upstreams(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"}, more="[tasks.other]\n[tasks.strings]\nactions = ['a', 'b']")
    decision = running.decision(running.chat(model="headway/other").json()["id"])
    assert [candidate.name for candidate in decision.candidates] == ["large", "small"]
    refused = running.chat(model="headway/strings")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_upstream")
    assert running.decisions("strings") == []


def test_models_are_tasks_and_upstreams(served: Proxy) -> None:
    reply = served.client.get("/v1/models").json()
    assert reply["object"] == "list"
    assert [model["id"] for model in reply["data"]] == ["headway/route", "small", "large"]
    assert served.client.get("/v1/models/large").json()["display_name"] == "large-model"
    assert served.client.get("/v1/models/headway%2Froute").json()["owned_by"] == "headway"
    assert served.client.get("/v1/models/none").json()["error"]["code"] == "model_not_found"

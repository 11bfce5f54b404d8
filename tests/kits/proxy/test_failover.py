"""If an upstream fails, another one is tried. The attempts of a request are one unit, with the first propensity."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.kits.proxy.conftest import Proxy
from tests.kits.proxy.upstream import WORDS, Upstream

NOBODY = "http://127.0.0.1:1/v1"
NOT_STREAMED = ("malformed", "not-an-answer", "deep", "gzip", "small-window", "redirect", NOBODY)
STREAMED = ("bad-sse-first", "error-first", "empty", "bad-sse", "not-utf8", "error-later", "cut", "unfinished", "huge")
REFUSED = ("refuse", "refuse-html")
WAYS = (*(f"status-{status}" for status in (401, 404, 429, 500)), *NOT_STREAMED, *STREAMED, *REFUSED)
MORE = "[tasks.worth]\nactions = ['bad-status-500']\nreward = { solved = 1.0 }\non_failure = -0.25\n"


def task(how: str) -> str:
    return "http1270011v1" if how == NOBODY else how


@pytest.mark.parametrize(
    ("how", "code", "http_status"),
    [
        ("status-500", "upstream_status", 500),
        ("status-401", "upstream_status", 401),
        ("status-404", "upstream_status", 404),
        ("status-429", "upstream_busy", 429),
        ("redirect", "upstream_status", 302),
        ("malformed", "upstream_malformed", 0),
        ("not-an-answer", "upstream_malformed", 0),
        ("deep", "upstream_malformed", 0),
        ("gzip", "upstream_malformed", 200),
        ("small-window", "upstream_too_small", 400),
        (NOBODY, "upstream_unreachable", 0),
    ],
)
def test_a_failed_upstream_is_stored_and_another_one_answers(
    ways: Proxy, how: str, code: str, http_status: int
) -> None:
    running = ways
    body = running.chat(model=f"headway/{task(how)}").json()
    first, second = running.decisions(task(how))
    assert (first.action, first.propensity) == (f"bad-{task(how)}", 1.0)
    assert (second.action, second.propensity) == ("good", 1.0)
    assert [candidate.name for candidate in second.candidates] == ["good"]
    assert second.situation.state["primary_failure_count"] == 1
    assert first.situation.text == second.situation.text
    assert body["id"] == first.id
    assert (second.unit, second.position, second.draw_id) == (first.id, 1, first.id)
    assert body["headway"]["failed"] == [{"decision": first.id, "upstream": first.action, "code": code}]
    assert running.labels(first.id)["failed"] == code
    assert running.signals(first.id).get("http_status", 0) == http_status
    with running.open() as project:
        project.signal(first.id, reward=1.0)  # the client rates the request
        assert project.outcome(first.id).status == "rewarded"
        assert project.query.counts(task(how)).units == 1


def test_the_propensity_of_each_attempt_is_exact_among_the_remaining_upstreams(proxy: Callable[..., Proxy]) -> None:
    running = proxy(
        {"a": "status-500", "b": "status-502", "c": "status-503", "d": "status-504"},
        task='explore = "none"\nfloor = 0.0',
    )
    answer = running.chat()
    attempts = running.decisions()
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_status"
    assert answer.headers["x-headway-decision"] == attempts[0].id
    assert running.outcome(attempts[0].id) == "failed"
    assert [len(attempt.candidates) for attempt in attempts] == [4, 3, 2]  # three attempts are enough
    assert [attempt.propensity for attempt in attempts] == pytest.approx([1 / 4, 1 / 3, 1 / 2], abs=1e-12)
    tried = [attempt.action for attempt in attempts]
    assert len(set(tried)) == 3
    for place, item in enumerate(attempts):
        assert {one.name for one in item.candidates} == {"a", "b", "c", "d"} - set(tried[:place])
        assert running.labels(item.id)["failed"] == "upstream_status"
    with running.open() as project:
        assert all(project.replay(attempt.id).exact for attempt in attempts)


def test_a_learned_distribution_is_conditional_too(proxy: Callable[..., Proxy]) -> None:
    """With rules and epsilon, the retry's probabilities are those of the same pipeline over the smaller set."""
    running = proxy(
        {"small": "status-500", "large": "status-500", "huge": "ok"},
        task='floor = 0.02\nrules = [{ when = "text_length >= 0", use = "small" }]',
    )
    for _ in range(3):
        running.chat()
    with running.open() as project:
        for decision in project.query.decisions("route"):
            assert sum(decision.probabilities) == pytest.approx(1.0)
            assert decision.propensity == decision.probabilities[decision.index]
            again = project.servings.of(project.settings.task("route")).pipeline.act(
                decision.situation, decision.candidates, decision.seed
            )
            assert tuple(again.probabilities.tolist()) == decision.probabilities


@pytest.mark.parametrize("how", ["bad-sse-first", "error-first", "empty", "huge"])
def test_a_stream_can_fail_over_until_its_first_event(ways: Proxy, how: str) -> None:
    text = ways.chat(model=f"headway/{how}", stream=True).text
    assert text.endswith("data: [DONE]\n\n")
    assert WORDS[0] in text
    first, second = ways.decisions(how)
    assert second.unit == first.id
    assert ways.signals(first.id)["failed"] == 1.0
    assert ways.outcome(first.id) == "pending"  # it was answered
    assert json.loads(text.split("\n\n")[0].removeprefix("data: "))["id"] == first.id


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("bad-sse", "upstream_malformed"),
        ("not-utf8", "upstream_malformed"),
        ("error-later", "upstream_error"),
        ("cut", "upstream_broken"),
        ("unfinished", "upstream_broken"),
    ],
)
def test_a_broken_stream_reports_an_error_and_is_not_retried(
    ways: Proxy, upstream: Upstream, how: str, code: str
) -> None:
    running = ways
    answer = running.chat(model=f"headway/{how}", stream=True)
    last = json.loads(answer.text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["error"]["code"] == code
    assert "[DONE]" not in answer.text
    (decision,) = running.decisions(how)
    assert running.outcome(decision.id) == "failed"
    assert running.labels(decision.id)["failed"] == code
    assert len(upstream.received) == 1


def test_the_refusal_of_an_invalid_request_is_passed_on_unchanged(ways: Proxy, upstream: Upstream) -> None:
    running = ways
    answer = running.chat(model="headway/refuse")
    assert answer.status_code == 400
    assert answer.text == '{"error":{"message":"no such tool",  "code":"bad_tool"}}'
    (decision,) = running.decisions("refuse")
    assert answer.headers["x-headway-decision"] == decision.id
    assert running.outcome(decision.id) == "pending"  # counted neither as a success nor as a failure
    assert running.signals(decision.id)["http_status"] == 400.0
    assert len(upstream.received) == 1


def test_a_refusal_that_is_not_json_gets_a_message(ways: Proxy) -> None:
    answer = ways.chat(model="headway/refuse-html")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "refused_upstream")


def test_a_busy_upstream_is_a_429_with_retry_after(ways: Proxy) -> None:
    answer = ways.chat(model="headway/only-status-429")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["type"] == "rate_limit_error"


def test_an_error_never_repeats_the_upstreams_message(ways: Proxy) -> None:
    assert "secret" not in ways.chat(model="headway/only-status-500").text


def test_on_failure_sets_the_reward_of_a_failed_call(ways: Proxy) -> None:
    ways.chat(model="headway/worth")
    with ways.open() as project:
        (decision,) = project.query.decisions("worth")
        outcome = project.outcome(decision.id)
    assert (outcome.status, outcome.reward) == ("failed", -0.25)

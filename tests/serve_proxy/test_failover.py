"""When an upstream fails: another one is tried, and each attempt is a decision with the probability that it had."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.serve_proxy.conftest import Proxy
from tests.serve_proxy.upstream import WORDS, Upstream

ALWAYS_FIRST = 'explore = "none"\nfloor = 0.0\nrules = [{ when = "text_length >= 0", use = "small" }]\n'


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
        ("http://127.0.0.1:1/v1", "upstream_unreachable", 0),
    ],
)
def test_a_failed_upstream_is_written_down_and_another_one_answers(
    proxy: Callable[..., Proxy], upstream: Upstream, how: str, code: str, http_status: int
) -> None:
    running = proxy({"small": how, "large": "ok"}, task=ALWAYS_FIRST)
    body = running.chat().json()
    first, second = running.decisions()
    assert (first.action, first.propensity) == ("small", 1.0)
    assert (second.action, second.propensity) == ("large", 1.0)
    assert [each.name for each in second.candidates] == ["large"]
    assert second.situation.state["primary_failure_count"] == 1
    assert first.situation.text == second.situation.text
    assert body["id"] == second.id
    assert body["headway"]["failed"] == [{"decision": first.id, "upstream": "small", "code": code}]
    assert running.outcome(first.id) == "failed"
    assert running.labels(first.id)["failed"] == code
    assert running.signals(first.id).get("http_status", 0) == http_status
    assert running.signals(second.id)["attempt"] == 2.0
    assert running.labels(second.id)["attempt"] == first.id
    assert running.outcome(second.id) == "pending"


def test_each_attempts_propensity_is_exact_among_those_that_are_left(proxy: Callable[..., Proxy]) -> None:
    running = proxy(
        {"a": "status-500", "b": "status-502", "c": "status-503", "d": "status-504"},
        task='explore = "none"\nfloor = 0.0',
    )
    answer = running.chat()
    attempts = running.decisions()
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_status"
    assert answer.headers["x-headway-decision"] == attempts[-1].id
    assert [len(each.candidates) for each in attempts] == [4, 3, 2]  # three attempts are enough
    assert [each.propensity for each in attempts] == pytest.approx([1 / 4, 1 / 3, 1 / 2], abs=1e-12)
    tried = [each.action for each in attempts]
    assert len(set(tried)) == 3
    for place, each in enumerate(attempts):
        assert {one.name for one in each.candidates} == {"a", "b", "c", "d"} - set(tried[:place])
        assert running.outcome(each.id) == "failed"
    with running.open() as project:
        assert all(project.replay(each.id)["exact"] for each in attempts)


def test_a_learned_distribution_is_conditional_too(proxy: Callable[..., Proxy]) -> None:
    """With rules and epsilon, the retry's probabilities are those of the same pipeline over the smaller set."""
    running = proxy(
        {"small": "status-500", "large": "status-500", "huge": "ok"},
        task='floor = 0.02\nrules = [{ when = "text_length >= 0", use = "small" }]',
    )
    for _ in range(3):
        running.chat()
    with running.open() as project:
        for each in project.query.decisions("route"):
            assert sum(each.probabilities) == pytest.approx(1.0)
            assert each.propensity == each.probabilities[each.index]
            again = project.servings.of(project.settings.task("route")).pipeline.distribution(
                each.situation, each.candidates, each.seed
            )
            assert tuple(again.probabilities.tolist()) == each.probabilities


def test_a_stream_can_fail_over_until_its_first_event(proxy: Callable[..., Proxy]) -> None:
    for how in ("bad-sse-first", "error-first", "empty", "status-500", "huge"):
        running = proxy({"small": how, "large": "ok"}, task=ALWAYS_FIRST)
        text = running.chat(stream=True).text
        assert text.endswith("data: [DONE]\n\n"), how
        assert "".join(WORDS[:1]) in text
        first, second = running.decisions()[-2:]
        assert running.outcome(first.id) == "failed"
        assert json.loads(text.split("\n\n")[0].removeprefix("data: "))["id"] == second.id


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
def test_a_stream_that_breaks_says_so_and_is_not_tried_elsewhere(
    proxy: Callable[..., Proxy], upstream: Upstream, how: str, code: str
) -> None:
    running = proxy({"small": how, "large": "ok"}, task=ALWAYS_FIRST)
    answer = running.chat(stream=True)
    last = json.loads(answer.text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["error"]["code"] == code
    assert "[DONE]" not in answer.text
    (decision,) = running.decisions()
    assert running.outcome(decision.id) == "failed"
    assert running.labels(decision.id)["failed"] == code
    assert len(upstream.received) == 1


def test_a_request_that_is_at_fault_itself_is_passed_on_unchanged(
    proxy: Callable[..., Proxy], upstream: Upstream
) -> None:
    running = proxy({"small": "refuse", "large": "ok"}, task=ALWAYS_FIRST)
    answer = running.chat()
    assert answer.status_code == 400
    assert answer.text == '{"error":{"message":"no such tool",  "code":"bad_tool"}}'
    (decision,) = running.decisions()
    assert answer.headers["x-headway-decision"] == decision.id
    assert running.outcome(decision.id) == "pending"  # nobody's success and nobody's failure
    assert running.signals(decision.id)["http_status"] == 400.0
    assert len(upstream.received) == 1


def test_a_refusal_that_is_not_json_is_put_into_words(proxy: Callable[..., Proxy]) -> None:
    answer = proxy({"small": "refuse-html"}).chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "refused_upstream")


def test_a_busy_upstream_is_a_429_that_says_when(proxy: Callable[..., Proxy]) -> None:
    answer = proxy({"small": "status-429"}).chat()
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["type"] == "rate_limit_error"


def test_a_failure_never_repeats_what_the_upstream_said(proxy: Callable[..., Proxy]) -> None:
    assert "secret" not in proxy({"small": "status-500"}).chat().text


def test_on_failure_says_what_a_failed_call_is_worth(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "status-500"}, task="reward = { solved = 1.0 }\non_failure = -0.25")
    running.chat()
    with running.open() as project:
        (decision,) = project.query.decisions("route")
        found = project.outcome(decision.id)
    assert (found.status, found.reward) == ("failed", -0.25)

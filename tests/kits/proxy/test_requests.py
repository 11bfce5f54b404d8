"""A request is one unit: whatever fails, is retried, repeated or killed, it is decided, counted and paid for once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kits.proxy.conftest import ASK, FIRST, Proxy, settings
from tests.kits.proxy.upstream import USAGE, Upstream

PAID = "price_in = 1.0\nprice_out = 2.0\n"
SMALL = FIRST % "small"


def rate(running: Proxy, decision: str, solved: float = 1.0) -> None:
    body = {"reward": solved}
    running.client.post(f"/v1/decisions/{decision}/signals", json=body).raise_for_status()


def terminal(running: Proxy, *words: str) -> str:
    """What a command prints, in one line."""
    command = [sys.executable, "-m", "headway", "-C", str(running.folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return " ".join((done.stdout + done.stderr).split())


def kill(running: Proxy) -> None:
    running.process.kill()
    running.client.close()
    running.process.communicate(timeout=20)


def in_flight(running: Proxy, upstream: Upstream, key: str) -> threading.Thread:
    """A request that an upstream has received and does not answer."""
    before = len(upstream.received)

    def ask() -> None:
        with httpx.Client(base_url=running.url, timeout=30) as client, suppress(httpx.HTTPError):  # it is killed
            client.post("/v1/chat/completions", json=ASK, headers={"idempotency-key": key})

    thread = threading.Thread(target=ask)
    thread.start()
    while len(upstream.received) == before:
        pass  # the test's time limit ends this
    return thread


def test_six_requests_that_a_fallback_answers_are_six_and_cost_what_the_fallback_costs(
    proxy: Callable[..., Proxy],
) -> None:
    running = proxy({"small": "status-500", "large": "ok"}, task=SMALL)
    answers = [running.chat().json() for _ in range(6)]
    for answer in answers:
        rate(running, answer["id"])
    assert {answer["headway"]["upstream"] for answer in answers} == {"large"}
    with running.open() as project:
        project.settle("route")
        (task,) = project.status().tasks
        leads = [row for row in project.query.decisions("route") if not row.unit]
        costs = [row.signals["cost_usd"] for row in project.query.settled("route", signals=True)]
        (outage,) = task.outages
    assert (task.units, dict(task.outcomes)["rewarded"]) == (6, 6)
    assert [row.action for row in leads] == ["small"] * 5 + ["large"]  # the sixth was decided without it
    assert [len(row.candidates) for row in leads] == [2] * 5 + [1]
    assert costs == pytest.approx([(USAGE[0] * 1.0 + USAGE[1] * 2.0) / 1e6] * 6)
    assert (outage.upstream, outage.failures, outage.elsewhere, outage.open) == ("small", 5, 6, True)
    assert outage.since == leads[0].at


def test_an_outage_is_told_in_status_and_log_and_goes_on_over_a_restart(
    proxy: Callable[..., Proxy],
) -> None:
    running = proxy({"small": "status-500", "large": "ok"}, task=SMALL, each="breaker_failures = 2")
    for _ in range(3):
        running.chat()
    kill(running)
    again = Proxy(running.folder, {})
    try:
        again.chat()  # the next draw may be the probe, which fails
        again.chat()
    finally:
        again.stop()
    with again.open() as project:
        (outage,) = project.status().tasks[0].outages
    assert (outage.failures, outage.elsewhere) == (3, 5)
    assert "'small' is down since" in terminal(running, "status")
    assert "Outage: 'small' is down since" in terminal(running, "log", "route")


def test_a_breaker_can_be_switched_off(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "status-500", "large": "ok"}, task=SMALL, each="breaker_failures = 0")
    for _ in range(7):
        running.chat()
    with running.open() as project:
        assert {len(row.candidates) for row in project.query.decisions("route") if not row.unit} == {2}
        assert project.status().tasks[0].outages == ()


def test_if_everything_is_down_everything_is_offered(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "status-500", "large": "status-503"}, each="breaker_failures = 1")
    for _ in range(3):
        assert running.chat().status_code == 502
    with running.open() as project:
        leads = [row for row in project.query.decisions("route") if not row.unit]
        assert [len(row.candidates) for row in leads] == [2, 2, 2]
        assert [project.outcome(row.id).status for row in leads] == ["failed"] * 3


def test_a_repeated_request_is_carried_on_under_the_same_id(proxy: Callable[..., Proxy], upstream: Upstream) -> None:
    running = proxy({"small": "status-500", "large": "status-500"})
    named = {"idempotency-key": "order-7", "x-client-request-id": "mine-1"}
    first = running.chat(named)
    second = running.chat(named)
    assert first.status_code == second.status_code == 502
    assert first.headers["x-headway-decision"] == second.headers["x-headway-decision"]
    with running.open() as project:
        attempts = project.query.request(first.headers["x-headway-decision"])
        assert [row.position for row in attempts] == [0, 1, 2, 3]
        assert project.query.counts("route").units == 1
        assert project.outcome(attempts[0].id).status == "failed"
    assert running.labels(attempts[0].id)["request_id"] == "mine-1"
    assert running.chat({"idempotency-key": "order-8"}).headers["x-headway-decision"] != attempts[0].id
    other = running.chat(named, messages=[{"role": "user", "content": "Something else"}])
    assert (other.status_code, other.json()["error"]["code"]) == (409, "id_conflict")


def test_an_answered_request_that_is_repeated_asks_the_same_upstream_again_and_adds_its_cost(
    proxy: Callable[..., Proxy], upstream: Upstream
) -> None:
    running = proxy({"small": "ok", "large": "ok"})
    answers = [running.chat({"idempotency-key": "again"}).json() for _ in range(4)]
    assert len({answer["id"] for answer in answers}) == 1
    assert len({request.path for request in upstream.received}) == 1
    with running.open() as project:
        attempts = project.query.request(answers[0]["id"])
        assert len({row.action for row in attempts}) == 1
        told = project.explain(attempts[0].id)
        assert [attempt.status for attempt in told.attempts or ()] == ["answered"] * 4
        assert project.query.counts("route").units == 1
    assert [row.propensity for row in attempts] == [0.5, 1.0, 1.0, 1.0]


def test_a_request_is_refused_while_it_is_being_answered(proxy: Callable[..., Proxy], upstream: Upstream) -> None:
    running = proxy({"small": "silent"}, each="timeout_s = 3")
    thread = in_flight(running, upstream, "same")
    second = running.chat({"idempotency-key": "same"})
    assert (second.status_code, second.json()["error"]["code"]) == (409, "request_in_progress")
    thread.join()
    assert len(running.decisions()) == 1


def test_a_request_of_a_killed_server_has_failed_and_is_completed_once(
    proxy: Callable[..., Proxy], upstream: Upstream, tmp_path: Path
) -> None:
    running = proxy({"small": "silent"}, each="timeout_s = 60")
    thread = in_flight(running, upstream, "killed")
    kill(running)
    thread.join()
    (tmp_path / "headway.toml").write_text(settings(upstream, {"small": "ok"}))
    again = Proxy(tmp_path, {})
    try:
        (decision,) = again.decisions()
        assert again.outcome(decision.id) == "failed"
        assert again.labels(decision.id)["failed"] == "interrupted"
        answers = [again.chat({"idempotency-key": "killed"}).json()["id"] for _ in range(2)]
        assert answers == [decision.id, decision.id]
        rate(again, decision.id)
    finally:
        again.stop()
    with again.open() as project:
        assert project.query.counts("route").units == 1
        assert project.outcome(decision.id).status == "rewarded"
        lanes = project.explain(decision.id).attempts or ()
    assert [lane.status for lane in lanes] == ["interrupted", "answered", "answered"]


@pytest.mark.slow
def test_servers_that_are_killed_again_and_again_double_and_lose_nothing(
    proxy: Callable[..., Proxy], upstream: Upstream, tmp_path: Path
) -> None:
    running = proxy({"small": "silent", "large": "ok"}, task=SMALL, each="timeout_s = 60")
    ids: dict[str, str] = {}
    for number in range(6):
        key = f"order-{number}"
        threads = [in_flight(running, upstream, key), in_flight(running, upstream, f"{key}-other")]
        kill(running)
        for thread in threads:
            thread.join()
        (tmp_path / "headway.toml").write_text(settings(upstream, {"small": "ok", "large": "ok"}, task=SMALL))
        running = Proxy(tmp_path, {})
        ids[key] = running.chat({"idempotency-key": key}).json()["id"]
        rate(running, ids[key])
        running.stop()
        (tmp_path / "headway.toml").write_text(settings(upstream, {"small": "silent", "large": "ok"}, task=SMALL))
        running = Proxy(tmp_path, {})
    running.stop()
    with running.open() as project:
        leads = [row for row in project.query.decisions("route") if not row.unit]
        outcomes = {row.id: project.outcome(row.id).status for row in leads}
    assert len(leads) == 12
    assert len(set(ids.values())) == 6
    assert {identifier: outcomes.pop(identifier) for identifier in ids.values()} == dict.fromkeys(
        ids.values(), "rewarded"
    )
    assert set(outcomes.values()) == {"failed"}  # never sent again


def test_explain_shows_the_attempts_of_a_request(
    proxy: Callable[..., Proxy],
) -> None:
    running = proxy({"small": "status-500", "large": "ok"}, task=SMALL + "keep_replies = true")
    answer = running.chat().json()
    told: dict[str, Any] = running.client.get(f"/v1/decisions/{answer['id']}").json()
    first, second = told["attempts"]
    assert (first["upstream"], first["status"], first["http_status"], first["cost_usd"]) == ("small", "failed", 500, 0)
    assert (second["upstream"], second["status"], told["served"]) == ("large", "answered", "large")
    assert told["reply"]["model"] == "large"
    assert running.client.get(f"/v1/decisions/{second['id']}").json()["request"] == answer["id"]
    listed = running.client.get("/v1/decisions?task=route").json()["decisions"]
    assert [row["id"] for row in listed] == [answer["id"]]
    shown = terminal(running, "explain", answer["id"])
    assert "failed upstream_status" in shown
    assert "served by" in shown

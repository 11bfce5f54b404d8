"""Jobs, events, metrics and the request log of the server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from headway.observe.jobs import Jobs, at_work
from tests.serve.conftest import ASK, Running
from tests.serve.test_lifecycle import events, stream


def test_learning_is_a_job_for_a_worker_and_unavailable_without_one(served: Callable[..., Running]) -> None:
    running = served()
    running.decide()
    answer = running.client.post("/v1/tasks/route/learn", json={"family": "bandit"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "worker_missing")
    assert "headway watch" in answer.json()["error"]["hint"]
    assert running.client.get("/v1/jobs").json() == {"jobs": []}
    with running.open() as project, at_work(project.database), stream(running) as listening:
        answer = running.client.post("/v1/tasks/route/learn", json={"family": "bandit", "seed": 3})
        assert answer.status_code == 202
        number = answer.json()["job"]
        jobs = Jobs(project.database)
        taken = jobs.claim("w", now=project.clock(), lease_s=60.0)
        assert taken is not None
        assert taken.body == {"task": "route", "family": "bandit", "seed": 3}
        jobs.progress(number, 7, 9, worker="w", now=project.clock(), lease_s=60.0)
        assert events(listening, "progress")["job"] == number
        jobs.finish(number, {"policy": "bandit@4f2a"}, worker="w", now=project.clock())
    reply = running.client.get(f"/v1/jobs/{number}").json()
    assert (reply["state"], reply["done"], reply["total"], reply["result"]) == ("done", 7, 9, {"policy": "bandit@4f2a"})


def test_a_flood_of_learning_requests_is_one_job(server: Running) -> None:
    server.decide()
    with server.open() as project, at_work(project.database):
        answers = [server.client.post("/v1/tasks/route/learn", json={}) for _ in range(50)]
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["job"] for answer in answers}) == 1
        another = server.client.post("/v1/tasks/route/learn", json={"seed": 1})
        assert (another.status_code, another.json()["error"]["code"]) == (409, "job_queued")


@pytest.mark.kits("reply")
def test_generate_needs_a_reply_task(server: Running) -> None:
    assert server.client.post("/generate", json={"prompt": "Hi"}).json()["error"]["code"] == "unknown_task"


def test_metrics_count_stored_decisions_and_signals(served: Callable[..., Running]) -> None:
    running = served()
    ids = [running.decide(text=str(n)).json()["id"] for n in range(5)]
    running.client.post(f"/v1/decisions/{ids[0]}/signals", json={"reward": 1.0, "cost": 2.0})
    running.client.get("/nope")
    text = running.client.get("/metrics").text
    assert 'headway_decisions_total{task="route"} 5.0\n' in text
    assert 'headway_signals_total{task="all"} 2.0\n' in text
    assert 'headway_requests_total{route="/v1/decisions",status="201"} 5.0\n' in text
    assert 'headway_requests_total{route="(none)",status="404"} 1.0\n' in text
    assert 'headway_request_seconds_count{route="/v1/decisions"} 5.0\n' in text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .+|[a-z_]+(\{([a-z]+=\"[^\"]*\",?)+\})? \S+", line), line


def test_the_request_log_has_only_routes_and_names(served: Callable[..., Running]) -> None:
    running = served()
    mine = running.decide(text="a private text").json()["id"]
    running.client.get(f"/v1/decisions/{mine}", headers=running.token)
    running.client.get("/v1/decisions?limit=3")
    running.client.get("/secret-path")
    running.stop()
    text = (running.folder / ".headway" / "run" / "requests.log").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(row["method"], row["route"], row["status"]) for row in rows] == [
        ("POST", "/v1/decisions", 201),
        ("GET", "/v1/decisions/{decision}", 200),
        ("GET", "/v1/decisions", 200),
        ("GET", "(none)", 404),
    ]
    assert rows[1]["key"] == "owner"
    assert rows[3]["code"] == "not_found"
    for secret in ("private", mine, "limit", "secret", running.token["authorization"]):
        assert secret not in text


def test_the_number_of_tasks_created_on_first_use_is_limited(served: Callable[..., Running]) -> None:
    running = served()
    for start in range(0, 1000, 500):
        asks = [{**ASK, "task": f"task-{n}"} for n in range(start, start + 500)]
        assert running.client.post("/v1/decisions/batch", json={"decisions": asks}).status_code == 201
    answer = running.decide(task="one-more")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "too_many_tasks")
    assert running.decide(task="task-7").status_code == 201

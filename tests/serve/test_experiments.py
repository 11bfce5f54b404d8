"""Experiments over HTTP: start, progress, end, and who may."""

from __future__ import annotations

from collections.abc import Callable

from tests.project.test_experiment import TOML
from tests.serve.conftest import Running


def test_an_experiment_is_started_followed_and_ended(served: Callable[..., Running]) -> None:
    running = served(TOML)
    with running.open() as project:
        for number in range(60):
            pick = project.decide("route", f"ask {number}")
            project.signal(pick.id, reward=float(pick.action == "large"))
        candidate = project.learn("route")
    get, post = running.client.get, running.client.post
    assert get("/v1/experiments").json() == {"experiments": []}
    path = "/v1/tasks/route/experiment"
    assert post(path, json={"share": 0.3}).status_code == 401
    started = post(path, json={"share": 0.3}, headers=running.token)
    assert (started.status_code, started.json()["kind"], started.json()["who"]) == (200, "experiment", "owner")
    picks = [running.decide(candidates=None).json() for _ in range(5)]
    (state,) = get("/v1/experiments", params={"task": "route"}).json()["experiments"]
    assert (state["policy"], state["share"], state["decisions"], state["running"]) == (candidate, 0.3, 5, True)
    assert get("/v1/tasks/route").json()["experiment"] == state
    explained = get(f"/v1/decisions/{picks[0]['id']}").json()
    assert "experiment 0.3" in explained["exploration"]
    canary = post(f"/v1/policies/{candidate}/canary", json={"share": 0.2}, headers=running.token)
    assert (canary.status_code, canary.json()["error"]["code"]) == (409, "experiment_running")
    assert post(path, json={"share": 0.9}, headers=running.token).status_code == 422
    ended = post(f"{path}/stop", json={"why": "enough"}, headers=running.token)
    assert (ended.status_code, ended.json()["detail"]["ended"]) == (200, "stopped")
    assert post(f"{path}/stop", headers=running.token).json()["error"]["code"] == "no_experiment"
    assert get("/v1/experiments").json()["experiments"][0]["ended"] == "stopped"
    assert get("/v1/tasks/route").json()["experiment"] is None
    assert post("/v1/tasks/rout/experiment", headers=running.token).status_code == 404


def test_the_shares_of_all_processes_change_at_once(served: Callable[..., Running]) -> None:
    """A server in another process takes up an experiment that the terminal starts, and its end."""
    running = served(TOML)
    assert running.decide(candidates=None).status_code == 201
    with running.open() as project:
        project.start_experiment("route", policy="uniform@0", share=0.4)
        seen = _until(running, "experiment 0.4", True)
        assert project.replay(seen).exact
        project.stop_experiment("route")
        assert project.replay(_until(running, "experiment 0.4", False)).exact


def _until(running: Running, words: str, there: bool) -> str:
    """Decide until the server has read the ledger; the id of the first decision after that."""
    for _ in range(10_000):
        identifier: str = running.decide(candidates=None).json()["id"]
        if (words in running.client.get(f"/v1/decisions/{identifier}").json()["exploration"]) == there:
            return identifier
    raise AssertionError("the server never read the ledger")

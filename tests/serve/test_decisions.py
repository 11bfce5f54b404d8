"""Decisions and signals over HTTP."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from headway.nouns import ids
from tests.serve.conftest import ASK, Running


def test_a_decision_is_returned_and_stored_with_its_propensity(server: Running) -> None:
    answer = server.decide()
    assert answer.status_code == 201
    body = answer.json()
    assert body.keys() == {"id", "action", "propensity", "policy"}
    with server.open() as project:
        stored = project.query.decision(body["id"])
    assert (stored.action, stored.propensity, stored.policy) == (body["action"], body["propensity"], body["policy"])
    assert stored.source == "real"
    assert sum(stored.probabilities) == pytest.approx(1.0)


def test_the_same_id_and_request_return_the_stored_decision(server: Running) -> None:
    mine = str(uuid.uuid4())
    first = server.decide(id=mine)
    again = server.decide(id=mine)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()


def test_the_same_id_with_another_request_is_a_conflict_that_reveals_nothing(server: Running) -> None:
    mine = str(uuid.uuid4())
    server.decide(id=mine, text="a secret")
    answer = server.decide(id=mine, text="another")
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "id_conflict"
    assert "secret" not in answer.text


@pytest.mark.parametrize("field", ["propensity", "policy", "probabilities", "source", "action", "key", "at"])
def test_fields_that_a_client_may_not_set_are_refused(server: Running, field: str) -> None:
    answer = server.client.post("/v1/decisions", json={**ASK, field: 0.5})
    assert answer.status_code == 422
    assert field in answer.json()["error"]["message"]


def test_a_batch_is_stored_completely_or_not_at_all(server: Running) -> None:
    good = {"decisions": [{**ASK, "text": str(n)} for n in range(50)]}
    answer = server.client.post("/v1/decisions/batch", json=good)
    assert answer.status_code == 201
    assert len(answer.json()["decisions"]) == 50
    before = server.stored()
    bad = {"decisions": [{**ASK, "text": "fine"}, {**ASK, "candidates": ["twice", "twice"]}]}
    answer = server.client.post("/v1/decisions/batch", json=bad)
    assert answer.status_code == 422
    mine = str(uuid.uuid4())
    server.decide(id=mine, text="first")
    bad = {"decisions": [{**ASK, "text": "fine"}, {**ASK, "id": mine, "text": "second"}]}
    assert server.client.post("/v1/decisions/batch", json=bad).status_code == 409
    assert server.stored() == before + 1


def test_a_described_candidate_is_stored_with_its_features(server: Running) -> None:
    answer = server.decide(candidates=[{"name": "a", "features": {"size": 3, "kind": "fix"}}, "b"], task="described")
    with server.open() as project:
        stored = project.query.decision(answer.json()["id"])
    assert dict(stored.candidates[0].features) == {"size": 3, "kind": "fix"}


def test_signals_are_stored_under_the_callers_name(server: Running) -> None:
    mine = server.decide().json()["id"]
    assert server.client.post(f"/v1/decisions/{mine}/signals", json={"reward": 1.0, "cost": 0.25}).status_code == 204
    assert (
        server.client.post(f"/v1/decisions/{mine}/signals", json={"reward": 0.5}, headers=server.token).status_code
        == 204
    )
    with server.open() as project:
        values = {(signal.name, signal.rater): signal.value for signal in project.query.signals(mine, live=True)}
    assert values == {("reward", ""): 1.0, ("cost", ""): 0.25, ("reward", "owner"): 0.5}


def test_null_withdraws_a_signal(server: Running) -> None:
    mine = server.decide().json()["id"]
    path = f"/v1/decisions/{mine}/signals"
    assert server.client.post(path, json={"reward": 1.0}).status_code == 204
    assert server.client.post(path, json={"reward": None}).status_code == 204
    assert server.client.get(f"/v1/decisions/{mine}").json()["outcome"]["status"] == "pending"
    assert server.client.post(path, json={"reward": None}).json()["error"]["code"] == "nothing_to_withdraw"


def test_an_idempotency_key_counts_once(server: Running) -> None:
    mine = server.decide().json()["id"]
    path, key = f"/v1/decisions/{mine}/signals", {"idempotency-key": "once"}
    assert server.client.post(path, json={"reward": 1.0}, headers=key).status_code == 204
    assert server.client.post(path, json={"reward": 1.0}, headers=key).status_code == 204
    assert server.client.post(path, json={"reward": 0.0}, headers=key).status_code == 409


def test_a_batch_of_signals_returns_the_number_of_new_ones(server: Running) -> None:
    made = [server.decide(text=str(n)).json()["id"] for n in range(3)]
    body = {"signals": [{"subject": identifier, "signals": {"reward": 1.0, "solved": True}} for identifier in made]}
    assert server.client.post("/v1/signals", json=body).json()["new"] == 6
    assert server.client.post("/v1/signals", json=body).json()["new"] == 0
    body["signals"].append({"subject": "dec_" + "0" * 32, "signals": {"reward": 1.0}})
    body["signals"][0]["signals"]["reward"] = 0.0
    assert server.client.post("/v1/signals", json=body).status_code == 404
    with server.open() as project:
        assert {signal.value for signal in project.query.signals(made[0], live=True)} == {1.0}


def test_an_early_signal_waits_for_its_decision(server: Running) -> None:
    mine = ids.decision(time.time())
    path = f"/v1/decisions/{mine}/signals"
    assert server.client.post(path, json={"reward": 1.0}).status_code == 404
    assert server.client.post(path, params={"early": "true"}, json={"reward": 1.0}).status_code == 204
    body = {"signals": [{"subject": mine, "signals": {"solved": True}}], "early": True}
    assert server.client.post("/v1/signals", json=body).json() == {"new": 1}
    assert server.decide(id=mine).status_code == 201
    assert server.client.get(f"/v1/decisions/{mine}").json()["outcome"]["reward"] == 1.0


def test_an_episode_accepts_signals_and_ends(server: Running) -> None:
    server.decide(task="walk", episode="one")
    path = "/v1/tasks/walk/episodes/one"
    assert server.client.post(f"{path}/signals", json={"reward": 1.0}).status_code == 204
    assert server.client.post(f"{path}/end", json={}).status_code == 204
    answer = server.decide(task="walk", episode="one")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "episode_ended")
    assert server.client.post("/v1/tasks/walk/episodes/two/end").status_code == 404


def test_a_sticky_episode_repeats_its_first_draw_even_when_asked_at_once(served: Callable[..., Running]) -> None:
    import concurrent.futures

    running = served('[tasks.route]\nactions = ["a", "b", "c", "d"]\nsticky = true\n')
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asks = list(pool.map(lambda n: running.decide(candidates=None, episode=f"e{n % 4}").json(), range(32)))
    for episode in range(4):
        assert len({ask["action"] for ask in asks[episode::4]}) == 1


def test_the_latest_decisions_come_newest_first(server: Running) -> None:
    made = [server.decide(task="latest", text=str(n)).json()["id"] for n in range(3)]
    rows = server.client.get("/v1/decisions", params={"task": "latest", "limit": 2}).json()["decisions"]
    assert [row["id"] for row in rows] == made[:0:-1]


def test_an_unknown_task_is_named_with_the_nearest_one(served: Callable[..., Running]) -> None:
    running = served('[tasks.route]\nactions = ["small", "large"]\n')
    answer = running.decide(task="rout")
    assert answer.status_code == 404
    assert "Did you mean 'route'?" in answer.json()["error"]["hint"]


def test_a_secret_in_a_request_is_not_stored(server: Running) -> None:
    from tests.observe.test_redact import KEYS

    secret = KEYS["openai"]
    offered = ["small", {"name": "large", "features": {"note": secret}}]
    asked = {"task": "route", "text": f"use {secret}", "state": {"note": secret}, "candidates": offered}
    identifier = server.client.post("/v1/decisions", json=asked).json()["id"]
    server.client.post("/v1/decisions/batch", json={"decisions": [asked, asked]})
    server.client.post(f"/v1/decisions/{identifier}/signals", json={"reward": 1.0})
    answered = server.client.get(f"/v1/decisions/{identifier}").text
    assert secret not in answered
    assert "[redacted:api-key]" in answered
    with server.open() as project:
        project.settle("route")
        for name in (path for path in (project.home).rglob("*") if path.is_file()):
            assert secret.encode() not in name.read_bytes(), name

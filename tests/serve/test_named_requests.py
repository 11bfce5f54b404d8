"""Names of requests and places in them belong to the key that gave them: nobody guesses, takes or poisons another's."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.nouns import ids
from tests.serve.conftest import Running
from tests.serve.test_keys import bearer, heeded, make

pytestmark = pytest.mark.kits("grow")
TOML = """
[tasks.ask]
unit = "request"
actions = ["a", "b"]
reward = { solved = 1.0 }
[tasks.talk]
unit = "episode"
actions = ["a", "b"]
reward = { solved = 1.0 }
[tasks.heads]
kind = "factored"
heads = { op = ["GO", "STOP"] }
needs = { GO = [], STOP = [] }
"""


class Keys:
    """A server and its two keys."""

    def __init__(self, server: Running) -> None:
        self.server = server
        with server.open() as project:
            self.secrets = {name: make(project, name, "decide", "signal") for name in ("ann", "bob")}
        for secret in self.secrets.values():
            heeded(server, secret)

    def post(self, key: str, path: str, body: dict[str, Any]) -> httpx.Response:
        return self.server.client.post(path, json=body, headers=bearer(self.secrets[key]))

    def decide(self, key: str, **more: Any) -> httpx.Response:
        return self.post(key, "/v1/decisions", {"task": "ask", "text": "hello", **more})


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    folder: Path = tmp_path_factory.mktemp("named")
    (folder / "headway.toml").write_text(TOML)
    server = Running(folder)
    yield Keys(server)
    server.stop()


def test_two_keys_may_use_the_same_name_and_learn_nothing_of_each_other(keys: Keys) -> None:
    mine = keys.decide("ann", idempotency_key="order-17").json()
    other = keys.decide("bob", idempotency_key="order-17", text="something else")
    assert other.status_code == 201, "201 also says that nobody used it"
    assert other.json()["id"] != mine["id"]
    again = keys.decide("ann", idempotency_key="order-17")
    assert (again.status_code, again.json()) == (200, mine)
    with keys.server.open() as project:
        assert project.query.decision(mine["id"]).situation.text == "hello"


def test_what_a_key_can_compute_is_the_id_of_no_named_request(keys: Keys) -> None:
    """Every part of the id but the store's secret is public, or guessed: the task, the key's name, the word."""
    made = keys.decide("ann", idempotency_key="order-18").json()["id"]
    with keys.server.open() as project:
        assert project.query.keyed_id("ask", "ann", "order-18") == made
    plain = bytearray(hashlib.blake2b(b"ask\0ann\0order-18", digest_size=16, person=b"headway-request").digest())
    plain[6], plain[8] = 0x80 | plain[6] & 0x0F, 0x80 | plain[8] & 0x3F
    for guess in (f"dec_{plain.hex()}", *(ids.keyed("ask", "ann", "order-18", secret=bytes(n)) for n in (16, 64))):
        assert guess != made
        assert keys.post("bob", f"/v1/decisions/{guess}/signals", {"solved": 0.0}).status_code == 404
        assert keys.decide("bob", id=guess).status_code == 201, "it was nobody's"
    again = keys.decide("ann", idempotency_key="order-18")
    assert (again.status_code, again.json()["id"]) == (200, made)


def test_a_request_of_another_key_and_one_that_is_none_are_refused_in_the_same_words(keys: Keys) -> None:
    hers, none = keys.decide("ann").json()["id"], f"dec_{uuid.uuid4().hex}"
    refusals = [keys.decide("bob", unit=unit, **more) for unit in (hers, none) for more in ({}, {"position": 7})]
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in refusals} == {(404, "unknown_decision")}
    assert len({json.dumps(a.json()).replace(hers, "ID").replace(none, "ID") for a in refusals}) == 1
    keys.post("ann", f"/v1/decisions/{hers}/signals", {"solved": 1.0})
    with keys.server.open() as project:
        project.settle("ask")
        assert project.explain(hers).outcome.reward == 1.0


def test_an_attempt_at_another_question_hides_no_outcome(keys: Keys) -> None:
    first = keys.decide("ann", text="prove that P is not NP").json()["id"]
    keys.post("bob", f"/v1/decisions/{first}/signals", {"solved": 0.0})
    easy = keys.decide("ann", text="what is 1 + 1?", unit=first)
    assert (easy.status_code, easy.json()["error"]["code"]) == (422, "other_request")
    again = keys.decide("ann", text="prove that P is not NP\nThe last proof had a gap.", unit=first)
    assert again.status_code == 201
    with keys.server.open() as project:
        project.settle("ask")
        assert project.explain(first).outcome.reward == 0.0


def test_an_attempt_a_day_later_hides_no_outcome(keys: Keys) -> None:
    with keys.server.open() as project:
        old = project.record("ask", "hello", action="a", propensity=0.5, key="ann", at=project.clock() - 90_000)
    late = keys.decide("ann", unit=old.id)
    assert (late.status_code, late.json()["error"]["code"]) == (422, "other_request")


def test_an_episode_that_is_a_unit_takes_no_step_of_another_key(keys: Keys) -> None:
    keys.decide("ann", task="talk", episode="e1")
    taken = keys.decide("bob", task="talk", episode="e1")
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "episode_conflict")
    with keys.server.open() as project:
        assert project.query.counts("talk").decisions == 1


def test_a_batch_with_one_name_twice_and_one_of_another_key_stores_each_once(keys: Keys) -> None:
    ask = {"task": "ask", "text": "hello", "idempotency_key": "twice"}
    answer = keys.post("ann", "/v1/decisions/batch", {"decisions": [ask, ask]}).json()["decisions"]
    assert answer[0] == answer[1]
    (other,) = keys.post("bob", "/v1/decisions/batch", {"decisions": [ask]}).json()["decisions"]
    assert other["id"] != answer[0]["id"]


def test_an_action_of_several_heads_is_decided_once_by_name(keys: Keys) -> None:
    first = keys.decide("ann", task="heads", idempotency_key="r-1")
    again = keys.decide("ann", task="heads", idempotency_key="r-1")
    assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())

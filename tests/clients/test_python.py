"""`headway.client`, sync and async, against a real server and over a lossy network."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy
import pytest

import headway
from headway import Busy, GateRefused, HeadwayError, InvalidInput, MissingExtra, Unavailable, UnknownName
from headway.client import AsyncClient, Client, Decided
from headway.client.answers import error_of, retry_after_s
from tests.clients.conftest import Network
from tests.serve.conftest import Running

Connect = Callable[..., Any]
ARMS = ["small", "large"]


def token(server: Running) -> str:
    return (server.folder / ".headway" / "token").read_text().strip()


def test_a_decision_is_made_signalled_and_explained(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    pick = client.decide("route", "Summarise this page", ARMS, state={"length": 3}, role="coder")
    assert isinstance(pick, Decided)
    assert pick.action in ARMS
    assert client.signal(pick.id, {"reward": 0.5}, cost=0.25) == 2
    assert client.signal(pick.id, reward=0.5) == 0
    explanation = client.explain(pick.id)
    assert (explanation["action"], explanation["propensity"], explanation["policy"]) == (
        pick.action,
        pick.propensity,
        pick.policy,
    )
    assert (explanation["state"], explanation["role"], explanation["outcome"]["reward"]) == (
        {"length": 3},
        "coder",
        0.5,
    )
    (task,) = [statu for statu in client.status()["tasks"] if statu["task"] == "route"]
    assert task["current"] == pick.policy


def test_a_batch_accepts_the_same_arguments_as_decide(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    described = [{"name": "a", "size": 3, "kind": "fix"}, headway.Candidate("b", {"size": 1}), "c"]
    run = uuid.uuid4().hex
    asks = [{"task": "described", "text": str(n), "candidates": described, "episode": f"{run}{n}"} for n in range(5)]
    made = client.decide_many(asks)
    assert len({decision.id for decision in made}) == 5
    with server.open() as project:
        stored = project.query.decision(made[0].id)
        assert dict(stored.candidates[0].features) == {"size": 3, "kind": "fix"}
        assert dict(stored.candidates[1].features) == {"size": 1}
    values = {decision.id: {"reward": 1.0, "solved": True} for decision in made}
    assert client.signals(values) == 10
    assert client.signals({**values, Client.episode(client, "described", f"{run}0"): {"reward": 0.0}}) == 1


def test_numpy_values_are_sent_as_numbers(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    pick = client.decide("arrays", "", ARMS, state={"v": numpy.array([1.0, 2.5]), "n": numpy.float32(0.5)})
    assert client.explain(pick.id)["state"] == {"v": [1.0, 2.5], "n": 0.5}


def test_a_block_records_latency_and_failure(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    with client.decision("block", "fine", ARMS) as fine:
        pass
    with pytest.raises(ZeroDivisionError), client.decision("block", "not fine", ARMS) as failed:
        raise ZeroDivisionError
    assert [signal["name"] for signal in client.explain(fine.id)["signals"]] == ["latency_s"]
    explanation = client.explain(failed.id)
    assert {signal["name"]: signal["label"] for signal in explanation["signals"]}["failed"] == "ZeroDivisionError"
    assert explanation["outcome"]["status"] == "failed"


def test_an_episode_ends(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    name = f"½ a? #{uuid.uuid4()}"  # a name that must be quoted in a path
    client.decide("walk", "", ARMS, episode=name)
    client.end_episode("walk", name, "truncated")
    with pytest.raises(headway.Conflict) as caught:
        client.decide("walk", "", ARMS, episode=name)
    assert caught.value.code == "episode_ended"


def test_events_report_new_decisions(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    events = client.events()
    first = next(events)
    assert first.name == "hello"
    client.decide("watched", "", ARMS)
    stored = server.stored()  # the last decision's number
    assert next(event.data for event in events if event.name == "decisions" and event.data["last"] >= stored)
    events.close()


# -- errors


WRONG: dict[str, Callable[[Any], Any]] = {
    "no_signal": lambda door: door.signal("dec_" + "0" * 32),
    "bad_id": lambda door: door.signal("nonsense", reward=1.0),
    "unknown_decision": lambda door: door.explain("dec_" + "0" * 32),
    "no_candidates": lambda door: door.decide("route", "Nothing to choose from"),
    "duplicate_candidate": lambda door: door.decide("route", "", ["a", "a"]),
    "unknown_episode": lambda door: door.end_episode("route", "never begun"),
    "id_conflict": lambda door: [door.decide("route", text, ARMS, id="0" * 31 + "7") for text in ("one", "other")],
}


@pytest.mark.parametrize("code", sorted(WRONG))
def test_an_error_is_the_same_as_in_the_project(server: Running, connect: Connect, code: str) -> None:
    raised = []
    with server.open() as project:
        for door in (project, connect(server.url)):
            with pytest.raises(HeadwayError) as caught:
                WRONG[code](door)
            raised.append(caught.value)
    here, there = raised
    assert here.code == there.code == code
    assert type(here) is type(there)
    assert there.status == here.status


def test_promotion_needs_a_key_and_evidence(served_loop: Running, connect: Connect) -> None:
    client = connect(served_loop.url)
    (candidate,) = [policy["policy"] for policy in client.policies("route") if policy["state"] == "candidate"]
    assert client.policy(candidate)["family"] == "bandit"
    with pytest.raises(HeadwayError) as refused:
        client.promote(candidate)
    assert (refused.value.code, refused.value.status) == ("key_needed", 401)
    owner = connect(served_loop.url, token(served_loop))
    with pytest.raises(headway.Conflict) as unproven:
        owner.promote(candidate)
    assert unproven.value.status == 409
    with served_loop.open() as project:
        verdict = project.prove(candidate)
        assert not verdict.passed
    with pytest.raises(GateRefused) as gate:
        owner.promote(candidate)
    assert gate.value.code == "gate_refused"
    assert gate.value.reasons
    entry = owner.rollback("route", to="rules@0", why="a test")
    assert (entry["kind"], entry["policy"], entry["why"]) == ("rollback", "rules@0", "a test")


@pytest.fixture
def served_loop(tmp_path: Any) -> Any:
    """A server over a project with an unproven candidate."""
    with headway.open(tmp_path, environ={}, seed=1) as project:
        for n in range(60):
            pick = project.decide("route", f"ask {n}", ARMS)
            project.signal(pick.id, reward=n % 2)
        project.learn("route", seed=1)
    running = Running(tmp_path)
    yield running
    running.stop()


def test_values_that_json_cannot_hold_are_refused_before_sending(server: Running, connect: Connect) -> None:
    client = connect(server.url)
    for bad in (float("nan"), float("inf"), object()):
        with pytest.raises(InvalidInput) as caught:
            client.decide("route", "", ARMS, state={"x": bad})
        assert caught.value.code == "not_json"
    with pytest.raises(InvalidInput) as caught:
        client.decide_many([{"task": "route", "txet": "a slip"}])
    assert "txet" in str(caught.value)


def test_an_unreachable_address_is_an_error(connect: Connect) -> None:
    with pytest.raises(Unavailable) as caught:
        connect("http://127.0.0.1:9").decide("route", "", ARMS)
    assert caught.value.code == "no_server"
    with pytest.raises(Unavailable) as caught:
        next(connect("http://127.0.0.1:9").events())
    assert caught.value.code == "no_server"


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://127.0.0.1", "http://", "http://me:secret@127.0.0.1"])
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Client(url)
    assert caught.value.code == "bad_url"
    assert "secret" not in str(caught.value)


def test_a_key_is_never_shown(server: Running, connect: Connect) -> None:
    client = connect(server.url, "hw_nobody-may-see-this")
    with pytest.raises(HeadwayError) as caught:
        client.status()
    assert caught.value.status == 401
    assert "nobody-may-see" not in f"{client!r} {caught.value!r} {caught.value}"


# -- over a lossy network


def test_a_decision_whose_answer_is_lost_is_stored_once(server: Running, network: Network, connect: Connect) -> None:
    client = connect(network.url)
    before = server.stored()
    network.next = ["lose answer", "lose", "deliver"]
    pick = client.decide("lossy", "once", ARMS)
    assert network.seen == ["POST /v1/decisions"] * 3
    assert server.stored() == before + 1
    assert client.explain(pick.id)["action"] == pick.action


def test_a_batch_whose_answer_is_lost_is_stored_once(server: Running, network: Network, connect: Connect) -> None:
    before = server.stored()
    network.next = ["lose answer"]
    asks = [{"task": "lossy", "text": f"batch {n}", "candidates": ARMS} for n in range(7)]
    assert len(connect(network.url).decide_many(asks)) == 7
    assert server.stored() == before + 7


def test_signals_are_counted_once_and_withdrawn_once(server: Running, network: Network, connect: Connect) -> None:
    client = connect(network.url)
    pick = client.decide("lossy", "signal", ARMS)
    network.next = ["lose answer"]
    client.signal(pick.id, reward=1.0)
    network.next = ["lose answer"]
    client.signal(pick.id, reward=None)
    assert client.explain(pick.id)["outcome"]["status"] == "pending"


def test_a_rollback_whose_answer_is_lost_is_not_sent_again(
    served_loop: Running, network: Network, connect: Connect
) -> None:
    direct = Network(served_loop.url)
    try:
        direct.next = ["lose answer"]
        with pytest.raises(Unavailable):
            connect(direct.url, token(served_loop)).rollback("route", to="uniform@0")
        assert direct.seen == ["POST /v1/tasks/route/rollback"]
    finally:
        direct.close()


def test_retry_after_is_honoured_up_to_a_limit(network: Network, connect: Connect) -> None:
    waited: list[float] = []
    client = connect(network.url, wait=waited.append, longest_wait_s=10.0)
    busy = b'{"error": {"code": "queue_full", "message": "Full.", "hint": "Later."}}'
    network.next = [
        (429, {"retry-after": "7"}, busy),
        (503, {"retry-after": "2"}, busy.replace(b"queue_full", b"stopping")),
    ]
    client.decide("busy", "", ARMS)
    assert waited == [7.0, 2.0]
    network.next = [(429, {"retry-after": "11"}, busy)]
    with pytest.raises(Busy) as caught:
        client.decide("busy", "", ARMS)
    assert (caught.value.code, caught.value.retry_after_s) == ("queue_full", 11.0)


def test_attempts_are_limited(network: Network, connect: Connect) -> None:
    waited: list[float] = []
    network.next = ["lose"] * 3
    with pytest.raises(Unavailable):
        connect(network.url, wait=waited.append, retries=2).decide("lossy", "", ARMS)
    assert len(network.seen) == 3
    assert 0.05 <= waited[0] <= 0.1 <= waited[1] <= 0.2


def test_a_missing_worker_is_an_error_at_once(network: Network, connect: Connect) -> None:
    network.next = [(503, {}, b'{"error": {"code": "worker_missing", "message": "None.", "hint": ""}}')]
    with pytest.raises(Unavailable) as caught:
        connect(network.url).status()
    assert caught.value.code == "worker_missing"
    assert len(network.seen) == 1


def test_an_answer_of_another_server_is_an_error(network: Network, connect: Connect) -> None:
    for answer in ((502, {}, b"<html>"), (200, {}, b"hello"), (302, {"location": "http://elsewhere/"}, b"")):
        network.next = [answer]
        with pytest.raises(HeadwayError) as caught:
            connect(network.url).decide("route", "", ARMS)
        assert caught.value.code == "not_headway"


# -- small parts


def test_a_retry_after_may_be_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_s({"retry-after": "Thu, 01 Jan 2026 00:00:09 GMT"}, now=now) == 9.0
    assert retry_after_s({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, now=now) == 0.0
    assert retry_after_s({"retry-after": "soon"}) is None
    assert retry_after_s({}) is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "unknown_task", UnknownName),
        (413, "too_large", InvalidInput),
        (429, "busy", Busy),
        (500, "internal", HeadwayError),
        (503, "bundle_damaged", headway.Damaged),
        (501, "missing_extra", MissingExtra),
        (503, "disk_full", Unavailable),
    ],
)
def test_every_status_has_an_error_class(status: int, code: str, kind: type[HeadwayError]) -> None:
    error = error_of(status, json.dumps({"error": {"code": code, "message": "M.", "hint": "H."}}).encode(), {})
    assert type(error) is kind
    assert (error.code, error.message, error.hint, error.status) == (code, "M.", "H.", status)


def test_both_clients_have_the_same_verbs() -> None:
    def verbs(kind: type) -> dict[str, list[str]]:
        members = inspect.getmembers(kind, inspect.isfunction)
        return {
            name: list(inspect.signature(member).parameters) for name, member in members if not name.startswith("__")
        }

    assert verbs(Client) == verbs(AsyncClient)
    assert list(inspect.signature(Client).parameters) == list(inspect.signature(AsyncClient).parameters)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_help_shows_arguments_and_results(kind: type) -> None:
    verbs = {name: verb for name, verb in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    for name, verb in verbs.items():
        assert verb.__doc__, name
        assert "ServerCall" not in str(inspect.signature(verb)), name
    assert str(inspect.signature(verbs["policy"])) == "(self, reference: 'str') -> 'dict[str, Any]'"
    assert verbs["decide"].__annotations__["return"] == "Decided"
    assert inspect.iscoroutinefunction(verbs["decide"]) == (kind is AsyncClient)


def test_importing_the_client_loads_no_numpy_and_no_project() -> None:
    code = (
        "import sys, headway.client\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('headway.')}\n"
        "assert rooms == {'client', 'nouns'}, rooms\n"
        "assert not {'numpy', 'msgspec', 'starlette', 'granian'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Factored decisions over HTTP: per-head and joint propensities, a killed server, conflicts and bad input."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import headway
from headway.client import Client
from headway.kits.grow.factored.memory import memories
from headway.nouns.wire import document
from tests.kits.grow.factored.tally_kit import PLAN, STATE, installed, learned, tally_site
from tests.serve.conftest import Running, served

__all__ = ["served", "tally_site"]


def prepare(folder: Path) -> None:
    """A project whose task `plan` is decided by a policy with a memory."""
    (folder / "headway.toml").write_text(PLAN)
    with headway.open(folder, environ={}) as project:
        learned(project)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests that do not kill it; each uses episodes of its own."""
    folder = tmp_path_factory.mktemp("factored")
    with installed(folder / "site"):
        prepare(folder)
        running = Running(folder)
        yield running
        errors = running.stop()
        assert "Traceback" not in errors, errors


def ask(running: Running, episode: str = "a", **more: Any) -> Any:
    return running.client.post("/v1/decisions", json={"task": "plan", "episode": episode, "state": STATE, **more})


def test_an_answer_has_every_head_and_the_joint_propensity(server: Running) -> None:
    running, before = server, server.stored()
    answer = ask(running, masks={"op": ["ANSWER"], "effort": [True, False, True]})
    assert answer.status_code == 201
    body = answer.json()
    assert body["step"] == 0
    assert list(body["heads"]) == ["op", "model", "effort"]
    assert body["heads"]["op"]["probabilities"] == {"ANSWER": 1.0, "RETRY": 0.0, "STOP": 0.0}
    assert body["heads"]["effort"]["allowed"] == ["low", "high"]
    assert math.prod(head["propensity"] for head in body["heads"].values()) == body["propensity"]
    assert ",".join(f"{name}={head['choice']}" for name, head in body["heads"].items()) == body["action"]
    told = running.client.get(f"/v1/decisions/{body['id']}").json()
    assert told["heads"] == body["heads"]
    with Client(running.url) as client:
        pick = client.decide("plan", episode="a", state=STATE, masks={"op": ["STOP"]})
        assert (pick.action, pick.step, list(pick.heads)) == ("op=STOP", 1, ["op"])
    batch = running.client.post(
        "/v1/decisions/batch", json={"decisions": [{"task": "plan", "episode": name, "state": STATE} for name in "bc"]}
    ).json()
    assert [decision["step"] for decision in batch["decisions"]] == [0, 0]
    twice = [{"task": "plan", "episode": "d", "state": STATE}] * 2
    refused = running.client.post("/v1/decisions/batch", json={"decisions": twice})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "step_conflict")
    assert running.stored() == before + 4


def test_an_episode_goes_on_with_the_same_memory_after_the_server_was_killed(
    served: Callable[..., Running], tally_site: Path, tmp_path: Path
) -> None:
    prepare(tmp_path)
    running = served()
    rng = random.Random(7)
    states = [{"observation": [rng.random(), rng.random()], "indices": [rng.randrange(3)]} for _ in range(12)]
    answers: list[dict[str, Any]] = []
    for step, state in enumerate(states):
        if step == 5:
            running.process.kill()
            running.process.wait()
            running = served()
        answer = ask(running, state=state, step=step)
        assert answer.status_code == 201
        answers.append(answer.json())
    expected = [0.0, 0.0]
    for state in states:
        expected = [
            0.5 * old + new + state["indices"][0] for old, new in zip(expected, state["observation"], strict=True)
        ]
    with running.open() as project:
        pick = project.decide("plan", episode="a", state=STATE)
        (*_, before) = memories(project).of("plan", "a")
        assert before.memory.tolist() == [expected]
        assert before.decision == answers[-1]["id"]
        stored = {decision.id: decision for decision in project.query.decisions("plan")}
        assert len(stored) == len(answers) + 1
        for answer in answers:  # the log has what was answered, and each decision can be made again
            row = stored[answer["id"]]
            assert (row.action, row.propensity, row.policy) == (
                answer["action"],
                answer["propensity"],
                answer["policy"],
            )
            assert {head.name: document(head) for head in project.heads(row.id)} == answer["heads"]
            assert project.replay(row.id).exact is True
        assert project.replay(pick.id).exact is True


def test_requests_at_the_same_time_are_stored_once_each(server: Running) -> None:
    """Log parity: every 201 is one row; a step is answered once, also where clients compete for it."""
    running, before = server, server.stored()

    def send(n: int) -> Any:
        step = {} if n % 3 else {"step": n // 8}
        return ask(running, episode=f"e{n % 4}", **step)

    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(send, range(64))]
    assert {answer.status_code for answer in answers} <= {201, 409, 422}
    refused = {answer.json()["error"]["code"] for answer in answers if answer.status_code != 201}
    assert refused <= {"step_conflict", "bad_step"}
    kept = [answer.json() for answer in answers if answer.status_code == 201]
    assert len({(body["id"]) for body in kept}) == len(kept) == running.stored() - before
    with running.open() as project:
        for decision in project.query.decisions("plan"):
            assert project.replay(decision.id).exact is True
        for episode in range(4):
            steps = [d.situation.step for d in project.query.decisions("plan") if d.situation.episode == f"e{episode}"]
            assert sorted(map(int, filter(lambda step: step is not None, steps))) == list(range(len(steps)))


def test_bad_input_is_refused_with_its_place_and_nothing_is_stored(server: Running) -> None:
    running, before = server, server.stored()
    for change, status, place in (
        ({"masks": {"modell": ["small"]}}, 404, "masks.modell"),
        ({"masks": {"model": ["smal"]}}, 404, "masks.model"),
        ({"masks": {"model": "small"}}, 422, "masks"),
        ({"masks": {"op": []}}, 422, "masks.op"),
        ({"masks": {"model": {"RETRY": ["small"]}}}, 422, "masks.model"),
        ({"state": {"observation": [1.0], "indices": [0]}}, 422, "state.observation"),
        ({"candidates": ["a"]}, 422, "heads"),
        ({"step": 3}, 422, "next step"),
        ({"step": -1}, 422, "step"),
    ):
        answer = ask(running, episode="bad", **change)
        assert answer.status_code == status, (change, answer.text)
        assert place in answer.json()["error"]["message"]
    raw = '{"task": "plan", "episode": "bad", "state": {"observation": [NaN, 0.0], "indices": [0]}}'
    answer = running.client.post("/v1/decisions", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert running.stored() == before
    assert ask(running, episode="bad", step=0).status_code == 201
    again = ask(running, episode="bad", step=0)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "step_conflict")
    assert running.stored() == before + 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_answered_steps_are_stored_once_although_the_server_was_killed_in_the_middle(
    served: Callable[..., Running], tally_site: Path, tmp_path: Path
) -> None:
    """Clients walk episodes and go on after every kill; a step without an answer may be stored, and is then 409."""
    del tally_site
    prepare(tmp_path)
    answered: list[dict[str, Any]] = []
    at = dict.fromkeys(range(6), 0)  # the next step of each episode
    for round_ in range(5):
        running = served()
        until = len(answered) + 40 + 13 * round_

        def walk(episode: int, running: Running = running) -> None:
            with httpx.Client(base_url=running.url, timeout=30) as client:
                while True:
                    state = {"observation": [0.1 * at[episode], episode], "indices": [at[episode] % 3]}
                    body = {"task": "plan", "episode": f"w{episode}", "step": at[episode], "state": state}
                    try:
                        answer = client.post("/v1/decisions", json=body)
                    except httpx.TransportError:
                        return
                    if answer.status_code == 201:
                        answered.append(answer.json())
                    else:  # stored before the kill, and never answered
                        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "step_conflict")
                    at[episode] += 1

        with ThreadPoolExecutor(len(at)) as pool:
            walks = [pool.submit(walk, episode) for episode in at]
            while len(answered) < until:
                running.client.get("/health")
            running.process.kill()
            running.process.wait()
            for one in walks:
                one.result()
    assert len({answer["id"] for answer in answered}) == len(answered)
    with running.open() as project:
        stored = {decision.id: decision for decision in project.query.decisions("plan")}
        assert len(stored) <= len(answered) + 5 * len(at)
        for answer in answered:
            row = stored[answer["id"]]
            assert (row.action, row.propensity) == (answer["action"], answer["propensity"])
            assert row.situation.step == answer["step"]
        assert all(project.replay(identifier).exact for identifier in stored)

"""The eight endpoints: trained over HTTP by a worker, readable while it learns, safe against NaN."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from headway.kits.prompts import MUTATIONS
from headway.kits.prompts.experiences import Step
from headway.kits.prompts.service import LEAST, service
from headway.observe.jobs import worker_there
from tests.serve.conftest import JSON, Running

WIDTH = 16
STATS = {"total_updates", "total_episodes", "avg_reward", "max_reward", "avg_policy_loss", "avg_value_loss",
         "avg_entropy", "avg_kl"}  # fmt: skip
UPDATE_FIELDS = {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "learning_rate", "buffer_size",
        "update_count"}  # fmt: skip


@contextmanager
def worker(server: Running) -> Iterator[None]:
    """`headway watch` over the server's folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", "-C", str(server.folder), "watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        with server.open() as project:
            for _ in range(2000):
                if worker_there(project.database):
                    break
                subprocess.run(["sleep", "0.02"], check=True)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        assert "Traceback" not in output, output


def embedding(rng: np.random.Generator, best: int) -> list[float]:
    """A vector that shows which mutation is best."""
    vector = rng.normal(0, 0.3, WIDTH)
    vector[best] += 2.0
    return (vector / np.linalg.norm(vector)).tolist()


def play(server: Running, rng: np.random.Generator, steps: int) -> None:
    """Episodes of one step: 1 for the best mutation, 0 otherwise."""
    for _ in range(steps):
        best = int(rng.integers(5))
        state = embedding(rng, best)
        picked = server.client.post("/select_action", json={"embedding": state}).json()
        reward = float(picked["action"] == best)
        body = {
            "state": state,
            "action": picked["action"],
            "reward": reward,
            "next_state": state,
            "done": True,
            "log_prob": picked["log_prob"],
            "value": picked["value"],
        }
        assert server.client.post("/store_experience", json=body).json()["stored"] is True


def stored(server: Running) -> int:
    with server.open() as project:
        return service(project).steps.totals().steps


STEP: dict[str, Any] = {
    "state": [0.1] * WIDTH,
    "action": 1,
    "reward": 0.5,
    "next_state": [0.1] * WIDTH,
    "done": False,
    "log_prob": -1.6,
    "value": 0.0,
}


def test_before_the_first_update_all_mutations_are_equally_likely(server: Running) -> None:
    assert server.client.get("/health").json()["status"] == "ok"
    reply = server.client.post("/get_distribution", json={"embedding": [0.0] * WIDTH}).json()
    assert reply == {"probabilities": [0.2] * 5, "mutation_types": list(MUTATIONS)}
    picked = server.client.post("/select_action", json={"embedding": [0.0] * WIDTH, "deterministic": True}).json()
    assert picked == {"action": 0, "mutation_type": MUTATIONS[0], "log_prob": math.log(0.2), "value": 0.0}
    stats = server.client.get("/stats", headers=server.token).json()
    assert set(stats) == STATS
    assert set(stats.values()) == {0}
    assert server.client.post("/update", json={}).json() == {"message": "Not enough experiences"}
    answer = server.client.post("/save", json={"path": "first"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "policy_missing")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ('"reward": NaN', 422),
        ('"reward": Infinity', 422),
        ('"reward": 1e999', 422),
        ('"log_prob": NaN', 422),
        ('"value": null', 422),
        ('"action": 5', 422),
        ('"action": -1', 422),
        ('"action": 1.5', 422),
        ('"state": [0.1, 0.2]', 422),
        ('"next_state": [0.1]', 422),
        ('"state": [' + ", ".join(["1e300"] * WIDTH) + "]", 422),
        ('"surprise": 1', 422),
        ('"reward": 0.25', 200),
    ],
)
def test_invalid_requests_get_our_error_shape_and_store_nothing(server: Running, change: str, status: int) -> None:
    server.client.post("/store_experience", json=STEP).raise_for_status()
    before = stored(server)
    name = change.partition(":")[0]
    rest = {key: value for key, value in STEP.items() if f'"{key}"' != name}
    answer = server.client.post("/store_experience", content=json.dumps(rest)[:-1] + f", {change}}}", headers=JSON)
    assert answer.status_code == status, answer.text
    if status == 422:
        assert set(answer.json()["error"]) == {"code", "message", "hint"}
    assert stored(server) == before + (status == 200)


def test_an_update_without_a_worker_names_the_command_that_starts_one(served: Callable[..., Running]) -> None:
    server = served()
    with server.open() as project:
        for _ in range(LEAST):
            service(project).store(Step(**STEP))
    answer = server.client.post("/update", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "worker_missing")
    assert "headway watch" in answer.json()["error"]["hint"]


@pytest.mark.slow
def test_a_policy_learns_over_http_while_it_is_read_and_reports_correct_statistics(
    served: Callable[..., Running],
) -> None:
    server = served()
    rng = np.random.default_rng(7)
    with worker(server):
        play(server, rng, LEAST)
        looking, seen, errors = threading.Event(), [0], list[str]()

        def read() -> None:
            while not looking.is_set():
                answer = server.client.post("/get_distribution", json={"embedding": embedding(rng2, 1)})
                seen[0] += 1
                if answer.status_code != 200 or abs(sum(answer.json()["probabilities"]) - 1) > 1e-9:
                    errors.append(answer.text)

        rng2 = np.random.default_rng(8)
        reader = threading.Thread(target=read)
        reader.start()
        answers = [server.client.post("/update", json={}).json()]
        looking.set()
        reader.join()
        assert not errors, errors[:3]
        assert seen[0] > 0
        assert set(answers[0]) == UPDATE_FIELDS, answers
        assert answers[0]["buffer_size"] == 0
        server.client.post("/save", json={"path": "early"}).raise_for_status()
        early = server.client.post("/get_distribution", json={"embedding": [0.25] * WIDTH}).json()
        for _ in range(4):
            play(server, rng, LEAST)
            answers.append(server.client.post("/update", json={}).json())
        # The probability of the best mutation: a fifth at first.
        shown = [(embedding(rng, n % 5), n % 5) for n in range(60)]
        asked = [server.client.post("/get_distribution", json={"embedding": state}).json() for state, _ in shown]
        best = np.mean([request["probabilities"][right] for request, (_, right) in zip(asked, shown, strict=True)])
        assert best > 0.25, best
        assert [answer["update_count"] for answer in answers] == [1, 2, 3, 4, 5]
        assert all(answer["approx_kl"] >= 0 for answer in answers)

        stats = server.client.get("/stats", headers=server.token).json()
        assert stats["total_updates"] == 5
        assert stats["total_episodes"] == 5 * LEAST == stored(server)
        assert stats["max_reward"] == 1.0
        assert stats["avg_policy_loss"] == pytest.approx(np.mean([answer["policy_loss"] for answer in answers]))
        assert stats["avg_entropy"] == pytest.approx(np.mean([answer["entropy"] for answer in answers]))

        # A reward of NaN is refused; the policy is unchanged bit for bit.
        before = server.client.post("/get_distribution", json={"embedding": [0.25] * WIDTH}).json()
        bad = json.dumps(STEP).replace('"reward": 0.5', '"reward": NaN')
        assert server.client.post("/store_experience", content=bad, headers=JSON).status_code == 422
        assert server.client.post("/get_distribution", json={"embedding": [0.25] * WIDTH}).json() == before != early

        # Names inside the registry, never paths; loading is for admins.
        for path in ("../../etc/passwd", "/tmp/x", "a/b", ""):
            assert server.client.post("/load", json={"path": path}, headers=server.token).status_code == 422
        missing = server.client.post("/load", json={"path": "earlier"}, headers=server.token)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_policy")
        assert server.client.post("/load", json={"path": "early"}).status_code == 401
        server.client.post("/load", json={"path": "early"}, headers=server.token).raise_for_status()
        assert server.client.post("/get_distribution", json={"embedding": [0.25] * WIDTH}).json() == early
        wrong = server.client.post("/select_action", json={"embedding": [0.25] * 3})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "bad_shape")
    with server.open() as project:
        kinds = [entry.kind for entry in project.ledger.entries("mutate-embedded")]
        assert kinds == ["snapshot", "candidate", *["snapshot"] * 4, "promote"]
        acting = [entry for entry in project.ledger.entries("mutate-embedded") if entry.kind != "candidate"]
        assert all(answer.detail["gate"] == "off" for answer in acting)


def test_a_server_that_serves_the_learned_policy_has_loaded_no_training_code(served: Callable[..., Running]) -> None:
    server = served()
    script = """
import sys
from headway.project import Project
from headway.kits.prompts.experiences import Step
from headway.kits.prompts.service import service
from pathlib import Path
with Project(Path(sys.argv[1])) as project:
    print(len(service(project).distribution([0.25] * 16)), "headway.kits.practice.fit" in sys.modules)
"""
    with server.open() as project:
        rng = np.random.default_rng(1)
        for _ in range(LEAST):
            state = embedding(rng, 2)
            action = int(rng.integers(5))
            service(project).store(
                Step(state=state, action=action, reward=float(action == 2), next_state=state, done=True,
                     log_prob=math.log(0.2), value=0.0)
            )  # fmt: skip
        metrics = service(project).update()
        assert metrics["update_count"] == 1
        assert service(project).update() == {"message": "Not enough experiences"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(server.folder)], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert done.stdout == "5 False\n"
    shares = server.client.post("/get_distribution", json={"embedding": embedding(rng, 2)}).json()["probabilities"]
    assert shares != [0.2] * 5

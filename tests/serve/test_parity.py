"""Every decision answered with 201 is stored exactly once, even if the server was killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.serve.conftest import ASK, Running
from tests.serve.load import hammer

ASKS = [{**ASK, "text": f"ask {n}", "candidates": ["a", "b", "c"][: 2 + n % 2]} for n in range(40)]


def killed(served: Callable[..., Running], times: int, seed: int) -> None:
    rng = random.Random(seed)
    answered: list[dict[str, Any]] = []
    running: Running | None = None
    for _ in range(times):
        running = served()
        # Killed in the middle of the load, somewhere between two answers.
        until = rng.randrange(100, 600)
        pool = ThreadPoolExecutor(1)
        load = pool.submit(hammer, running.port, 32, ASKS, 10**9)
        metrics = 0
        while metrics < until:
            text = running.client.get("/metrics").text
            lines = [splitline for splitline in text.splitlines() if splitline.startswith("headway_decisions_total")]
            metrics = sum(float(line.rpartition(" ")[2]) for line in lines)
        running.process.kill()
        running.process.wait()
        seen = load.result()
        pool.shutdown()
        assert {status for status, _ in seen} == {201}
        answered += [body for _, body in seen]
    assert running is not None
    assert len(answered) > 100 * times
    ids = Counter(answer["id"] for answer in answered)
    assert set(ids.values()) == {1}
    with running.open() as project:
        assert project.database.check() == []
        stored = {decision.id: decision for decision in project.query.decisions("route")}
        assert project.query.counts("route").decisions == len(stored)
    for reply in answered:
        row = stored[reply["id"]]
        assert (row.action, row.propensity, row.policy) == (reply["action"], reply["propensity"], reply["policy"])
        assert abs(sum(row.probabilities) - 1.0) < 1e-9
        assert row.probabilities[row.index] == row.propensity


def test_answered_decisions_are_stored_once_although_the_server_was_killed(served: Callable[..., Running]) -> None:
    killed(served, times=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_answered_decisions_are_stored_once_although_the_server_was_killed_ten_times(
    served: Callable[..., Running],
) -> None:
    killed(served, times=10, seed=2)


def test_grouped_decisions_replay_exactly(served: Callable[..., Running]) -> None:
    """Grouped decisions equal single ones bit for bit."""
    running = served()
    answers = hammer(running.port, 16, ASKS, 300)
    assert {status for status, _ in answers} == {201}
    with running.open() as project:
        for _, body in answers[::10]:
            assert project.replay(body["id"]).exact is True


def test_a_conflict_in_a_group_is_reported_only_to_its_own_client(served: Callable[..., Running]) -> None:
    running = served()
    mine = "0197c1f2-a3b4-7000-a1b2-c3d4e5f60718"
    assert running.decide(id=mine, text="first").status_code == 201
    clash = {**ASK, "id": mine, "text": "second"}
    wrong = {**ASK, "candidates": ["twice", "twice"]}
    answers = hammer(running.port, 16, [ASK, clash, ASK, wrong], 400)
    counts = Counter(status for status, _ in answers)
    assert counts.keys() == {201, 409, 422}
    assert {body["error"]["code"] for status, body in answers if status == 409} == {"id_conflict"}
    assert running.stored() == 1 + counts[201]


def test_a_full_queue_is_refused_with_the_time_to_wait(served: Callable[..., Running]) -> None:
    running = served("[store]\nqueue = 4\n")
    answers = hammer(running.port, 64, [ASK], 1000)
    counts = Counter(status for status, _ in answers)
    assert counts.keys() == {201, 429}
    assert {body["error"]["code"] for status, body in answers if status == 429} == {"queue_full"}
    assert running.stored() == counts[201]

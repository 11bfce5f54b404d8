"""Restarts of a real PostgreSQL under load: every answered decision and signal is stored, once."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.loop.running import until
from tests.postgres import Server, ServerUnavailable
from tests.serve.conftest import ASK, Running, served  # noqa: F401 — a fixture

RESTARTS = 8
CLIENTS = 8


class Client(threading.Thread):
    """Decides and signals until it is told to end; what got no answer is sent again with the same id."""

    def __init__(self, url: str, end: threading.Event, seed: int) -> None:
        super().__init__()
        self._http = httpx.Client(base_url=url, timeout=30)
        self._end = end
        self._rng = random.Random(seed)
        self.decided: dict[str, dict[str, Any]] = {}
        self.signalled: dict[str, float] = {}
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        with self._http:
            self._work()

    def _work(self) -> None:
        while not self._end.is_set():
            mine = f"0197c1f2-a3b4-7000-a1b2-{self._rng.getrandbits(48):012x}"
            answer = self._until_answered("/v1/decisions", {**ASK, "id": mine, "text": mine})
            self.decided[answer["id"]] = answer
            value = round(self._rng.random(), 3)
            self._until_answered(f"/v1/decisions/{answer['id']}/signals", {"reward": value})
            self.signalled[answer["id"]] = value

    def _until_answered(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            answer = self._http.post(path, json=body)
            self.statuses[answer.status_code] += 1
            if answer.status_code not in (429, 503):
                return answer.json() if answer.raise_for_status().content else {}
            self._end.wait(0.02)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_eight_restarts_of_the_database_lose_and_double_nothing(served: Callable[..., Running]) -> None:  # noqa: F811
    try:
        started = Server.started()
        database = started.__enter__()
    except ServerUnavailable as error:
        pytest.skip(str(error))
    end, rng = threading.Event(), random.Random(23)
    try:
        server = served(env={**os.environ, "HEADWAY_STORE_URL": database.store()})
        clients = [Client(server.url, end, seed) for seed in range(CLIENTS)]
        for client in clients:
            client.start()

        def answered() -> int:
            return sum(len(client.signalled) for client in clients)

        for number in range(RESTARTS):
            goal = answered() + rng.randint(40, 160)
            until(lambda: answered() >= goal, "more decisions")  # noqa: B023
            database.stop(mode="immediate" if number % 2 else "fast")  # a crash, or an orderly stop
            refused = sum(client.statuses[503] for client in clients)
            until(lambda: sum(one.statuses[503] for one in clients) > refused, "a refusal without the store")  # noqa: B023
            database.start()
        goal = answered() + 100
        until(lambda: answered() >= goal, "decisions after the last restart")
        end.set()
        for client in clients:
            client.join()

        statuses = sum((client.statuses for client in clients), Counter[int]())
        assert set(statuses) <= {200, 201, 204, 429, 503}, statuses
        decided = {name: body for client in clients for name, body in client.decided.items()}
        assert len(decided) == sum(len(client.decided) for client in clients) > 40 * RESTARTS
        with server.open() as project:
            rows = project.query.decisions("route")
            stored = Counter(row.id for row in rows)
            assert set(stored.values()) == {1}
            assert set(stored) == set(decided), "each was sent until it was answered"
            for row in project.query.decisions("route"):
                told = decided[row.id]
                assert (row.action, row.propensity, row.policy) == (told["action"], told["propensity"], told["policy"])
            for client in clients:
                for name, value in client.signalled.items():
                    assert [signal.value for signal in project.query.signals(name)] == [value]
    finally:
        end.set()
        started.__exit__(None, None, None)

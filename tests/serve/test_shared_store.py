"""Several servers over one PostgreSQL store."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from tests.postgres import Server
from tests.project.conftest import play
from tests.serve.conftest import Running

pytestmark = pytest.mark.engines("postgresql", why="SQLite serves one server")
DECLARED = '[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n'


@pytest.mark.kits("postgres")
def test_two_servers_share_decisions_signals_and_the_current_policy(
    tmp_path: Path, environ: dict[str, str], served: Callable[..., Running]
) -> None:
    (tmp_path / "headway.toml").write_text(DECLARED)
    with headway.open(tmp_path, environ=environ, seed=3) as project:
        play(project, 300)
        both = [served(env={**os.environ, **environ}) for _ in range(2)]
        ids: list[str] = []

        def ask(running: Running) -> None:
            ids.extend(running.decide(text=str(number)).json()["id"] for number in range(100))

        threads = [threading.Thread(target=ask, args=(side,)) for side in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(ids)) == 200
        assert project.query.counts("route").decisions == 500
        for number, identifier in enumerate(ids):  # each signal to the server that did not decide, or did
            answer = both[number % 2].client.post(f"/v1/decisions/{identifier}/signals", json={"reward": 1.0})
            assert answer.status_code == 204
        ref = project.learn("route")
        project.promote(ref)
        until = time.monotonic() + 10
        while {side.decide().json()["policy"] for side in both} != {ref}:
            assert time.monotonic() < until, "the promotion is not served by both"
        assert project.query.counts("route").signals == 500


@pytest.mark.kits("postgres")
def test_a_server_answers_503_while_the_database_is_down_and_then_continues(
    tmp_path: Path, served: Callable[..., Running]
) -> None:
    with Server.started() as database:
        running = served(env={**os.environ, "HEADWAY_STORE_URL": database.store()})
        first = running.decide()
        assert first.status_code == 201
        database.stop()
        away = running.decide()
        assert away.status_code == 503
        assert away.json()["error"]["code"] in ("store_unreachable", "store_unavailable")
        assert away.json()["error"]["hint"]
        database.start()
        until = time.monotonic() + 20
        while (again := running.decide()).status_code != 201:
            assert again.status_code == 503
            assert time.monotonic() < until
        answer = running.client.get(f"/v1/decisions/{first.json()['id']}")
        assert answer.status_code == 200
        assert answer.json()["action"] == first.json()["action"]
        running.stop()

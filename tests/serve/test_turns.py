"""While another key writes, a key has few writes in progress; alone, as many as it sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import headway
from headway.observe.keys import Keys
from headway.serve import rate
from headway.serve.rate import Crowd
from headway.serve.state import Server
from headway.settings import ServerSettings
from tests.attacks.language_worker import recording_worker
from tests.kits.proxy.upstream import Upstream
from tests.serve.conftest import ASK, Running

TOML = """
[tasks.reply]
kind = "reply"

[tasks.route]
actions = ["slow"]

[tasks.pick]
actions = ["small", "large"]

[tasks.plan]
kind = "factored"
heads = { tool = ["search", "stop"] }

[upstreams.slow]
url = "URL"
model = "slow-model"
"""


def test_a_key_is_in_a_crowd_for_a_second_after_another_one_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(rate.time, "monotonic", lambda: now[0])
    crowd = Crowd()
    assert [crowd.around("busy") for _ in range(3)] == [False] * 3
    assert crowd.around("calm")
    assert [crowd.around("busy") for _ in range(3)] == [True] * 3
    now[0] += 1.1
    assert not crowd.around("busy")


def test_beside_another_key_twelve_requests_work_a_few_at_a_time_and_pause(tmp_path: Path) -> None:
    server = Server(headway.open(tmp_path), ServerSettings(), log_requests=False)
    running = {"busy": 0, "calm": 0}
    peak = dict(running)

    async def work(key: str) -> None:
        running[key] += 1
        peak[key] = max(peak[key], running[key])
        await asyncio.sleep(0.002)
        running[key] -= 1

    async def crowded(most: int) -> float:
        busy = [asyncio.create_task(server.in_order("busy", most, lambda: work("busy"))) for _ in range(12)]
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        await server.in_order("calm", most, lambda: work("calm"))
        assert any(not task.done() for task in busy), "the other key does not wait for those in line"
        await asyncio.gather(*busy)
        return asyncio.get_running_loop().time() - began

    try:
        asyncio.run(crowded(4))
        assert peak == {"busy": 4, "calm": 1}
        peak["busy"] = 0
        assert asyncio.run(crowded(1)) > 11 * 2 * 0.002, "between its turns it pauses as long as it worked"
        assert peak["busy"] == 1
    finally:
        server.close()
        server.project.close()


def test_a_thread_is_one_at_a_time_beside_another_key_and_two_alone(tmp_path: Path) -> None:
    server = Server(headway.open(tmp_path), ServerSettings(), log_requests=False)

    async def asked(beside: bool) -> set[int]:
        if beside:
            server.crowd.around("calm")
        for _ in range(3):
            await server.in_key_thread("busy", lambda: None)
        return {most for key, most in server._turns if key == "busy"}

    try:
        assert asyncio.run(asked(beside=False)) == {2}
        assert asyncio.run(asked(beside=True)) == {1, 2}
    finally:
        server.close()
        server.project.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    running = Upstream()
    yield running
    running.stop()


def send(running: Running, secret: str, path: str, body: Any) -> httpx.Response:
    return httpx.post(
        f"{running.url}{path}", json=body, headers={"authorization": f"Bearer {secret}"}, timeout=30, trust_env=False
    )


def keys_of(running: Running, *names: str) -> list[str]:
    with running.open() as project:
        secrets = [Keys(project.database).add(name, ("decide", "signal"), now=project.clock()) for name in names]
    until = time.monotonic() + 20
    while send(running, secrets[-1], "/v1/decisions", {**ASK, "task": "pick"}).status_code == 401:
        assert time.monotonic() < until, "the new keys are not heeded"
    return secrets


def test_beside_another_key_a_request_that_needs_a_thread_is_answered(
    served: Callable[..., Running], tmp_path: Path
) -> None:
    """It has its key's turn already, so that it must not wait for another one."""
    plans = {"decisions": [{"task": "plan", "text": "x"}] * 2}
    chat = {"model": "headway/reply", "messages": [{"role": "user", "content": "Hello"}]}
    running = served(TOML.replace("URL", "http://127.0.0.1:9/v1"))
    busy, calm = keys_of(running, "busy", "calm")
    with recording_worker(tmp_path):
        for path, body, status in (("/v1/decisions/batch", plans, 201), ("/v1/chat/completions", chat, 200)) * 2:
            assert send(running, calm, "/v1/decisions", {**ASK, "task": "pick"}).status_code == 201
            answer = send(running, busy, path, body)
            assert answer.status_code == status, answer.text


def test_a_key_waits_for_several_upstreams_at_once_beside_another_key(
    upstream: Upstream, served: Callable[..., Running]
) -> None:
    chat = {"model": "headway/route", "messages": [{"role": "user", "content": "Hello"}]}
    running = served(TOML.replace("URL", upstream.url("gated")))
    busy, calm = keys_of(running, "busy", "calm")
    until = time.monotonic() + 20
    assert send(running, calm, "/v1/decisions", {**ASK, "task": "pick"}).status_code == 201
    with ThreadPoolExecutor() as threads:
        asked = [threads.submit(send, running, busy, "/v1/chat/completions", chat) for _ in range(3)]
        while len(upstream.received) < 3 and time.monotonic() < until:
            send(running, calm, "/v1/decisions", {**ASK, "task": "pick"})
        together = len(upstream.received)
        upstream.release()
        assert [answer.result().status_code for answer in asked] == [200] * 3
    assert together == 3, "none waits for the answer to another"

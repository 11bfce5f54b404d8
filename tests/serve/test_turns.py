"""While another key writes, a key has few writes in progress; alone, as many as it sends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headway
from headway.serve import rate
from headway.serve.rate import Crowd
from headway.serve.state import Server
from headway.settings import ServerSettings


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

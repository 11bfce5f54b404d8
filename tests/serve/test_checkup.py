"""`GET /v1/doctor`: calls that come together are answered by one check."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from tests.serve.conftest import Running


@pytest.mark.slow
def test_checkups_that_are_asked_for_together_are_one_process(served: Callable[..., Running]) -> None:
    server = served("")
    me, running = psutil.Process(), threading.Event()
    seen: set[int] = set()

    def ask(_: int) -> Any:
        answer = server.client.get("/v1/doctor", headers=server.token, timeout=60)
        assert answer.status_code == 200
        return answer.json()

    def look() -> None:
        while not running.wait(0.01):
            seen.update(child.pid for child in me.children(recursive=True) if "doctor" in _line(child))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        with ThreadPoolExecutor(6) as threads:
            first, *others = threads.map(ask, range(6))
    finally:
        running.set()
        watching.join()
    assert all(other == first for other in others)
    assert len(seen) == 1


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""

"""The lock of a project: one holder, whom others can name."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from headway.loop.lock import held, holder
from headway.nouns.errors import Conflict


def test_the_second_holder_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run" / "up.lock"
    assert holder(path) is None
    with held(path, "headway up") as note:
        note({"url": "http://127.0.0.1:1"})
        assert (holder(path) or {})["url"] == "http://127.0.0.1:1"
        with pytest.raises(Conflict, match=f"process {os.getpid()} since .* at http://127.0.0.1:1") as caught:
            held(path, "headway up").__enter__()
        assert caught.value.code == "already_running"
    assert holder(path) is None
    with held(path, "headway up"):
        pass


def test_reading_a_lock_does_not_block_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "up.lock"
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    waits: list[float] = []

    def finish_looking(seconds: float) -> None:
        waits.append(seconds)
        fcntl.flock(looking, fcntl.LOCK_UN)

    monkeypatch.setattr("headway.loop.lock.time.sleep", finish_looking)
    with held(path, "headway up"):
        assert len(waits) == 1
    os.close(looking)

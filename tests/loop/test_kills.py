"""kill -9 of the loop, the server and the supervisor at random moments, under traffic."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from random import Random

import pytest

import headway
from headway.observe.jobs import Jobs
from tests.loop.running import Up, alive, can_bind, sockets, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc")

SETTINGS = """
[tasks.route]
actions = ["small", "large"]
retrain_after = 10
promote = "auto"
final_after_s = 0
gate = "off"            # every candidate is promoted: as many moments as possible to be killed in

[watch]
interval_s = 0.1
"""


class Users:
    """Ask and rate continuously; remember what was acknowledged."""

    def __init__(self, running: Up) -> None:
        self.running = running
        self.acknowledged: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            made = self.running.decide(f"question {number}")
            if made is None:
                self._stop.wait(0.02)
            else:
                self.acknowledged.append(made)

    def more(self, count: int) -> None:
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal, f"{count} more answers")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def storm(folder: Path, kills: list[str], seed: int) -> None:
    """Traffic and these kills in this order, then check: everything is stored once, and no process is left."""
    (folder / "headway.toml").write_text(SETTINGS, "utf-8")
    rng = Random(seed)
    seen: set[int] = set()
    running = Up(folder, "--port", "0").ready()
    users = Users(running)
    try:
        port = running.port
        for target in kills:
            users.more(rng.randint(1, 30))
            until(running.loop_pid, "the loop")
            seen.update(running.children())
            time.sleep(rng.random() * 0.3)  # a random moment
            if target == "up":
                running.process.send_signal(signal.SIGSTOP)  # so that it starts no process while we count
                parts = running.children()
                running.process.kill()
                running.close()
                until(lambda: not any(map(alive, parts)), "the end of its children")  # noqa: B023
                assert can_bind(port), f"the port is held: {sockets(port)}, children were {parts}"
                running = users.running = Up(folder, "--port", str(port)).ready()
                continue
            victim = running.server["pid"] if target == "server" else running.loop_pid()
            if victim:
                with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(victim, signal.SIGKILL)
        users.more(30)
        until(lambda: promotions(folder), "a promotion by a loop that is left in peace")
        seen.update(running.children())
        users.stop()
        assert running.stop() == 0
    finally:
        users.stop()
        running.close()
    assert not [pid for pid in seen if alive(pid)]
    assert can_bind(port)
    check(folder, users.acknowledged)


def promotions(folder: Path) -> int:
    with headway.open(folder, environ={}) as project:
        return len(project.ledger.entries("route", "promote"))


def check(folder: Path, acknowledged: list[str]) -> None:
    with headway.open(folder, environ={}) as project:
        stored = {decision.id for decision in project.query.decisions("route")}
        assert not set(acknowledged) - stored, "acknowledged and lost"
        assert all(project.query.signals(decision) for decision in acknowledged)
        assert project.database.check() == []
        current, promoted = "", []
        for entry in project.ledger.entries("route"):
            if entry.kind in ("promote", "rollback"):
                assert entry.expects == current, "every change names the one before it"
                assert entry.policy_hash != current, "promoted twice"
                current = entry.policy_hash
                promoted.append(current)
        assert promoted, "the loop worked throughout"
        by_loop = [entry.policy_hash for entry in project.ledger.entries("route") if entry.kind == "promote"]
        assert len(by_loop) == len(set(by_loop)), "promoted twice"
        serving = project.servings.of(project.settings.task("route"))
        assert serving.digest == current
        left = [job for job in Jobs(project.database).latest(1000) if job.state in ("queued", "running")]
        assert len(left) <= 1, "only what the last kill interrupted, which the next start ends"


def test_a_few_random_kills_lose_nothing(tmp_path):
    storm(tmp_path, ["loop", "server", "up", "loop"], seed=5)

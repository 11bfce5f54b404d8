"""Projects with traffic, and a watch whose clock and machine load the test controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.loop.watch import Watch
from headway.loop.when import Machine
from headway.project import Project

AUTO = '[tasks.route]\nactions = ["small", "large"]\npromote = "auto"\nramp = "off"\nfinal_after_s = 0\n'
ASK = '[tasks.route]\nactions = ["small", "large"]\n'
ROOMY = Machine(free_disk_mb=1e6, free_memory_mb=1e6, load=0.0)


def rewarded(project: Project, task: str, asks: list[tuple[str, Callable[[str], float]]]) -> list[str]:
    """Decisions and their rewards, stored as two batches: one commit each."""
    picks = project.submit([project.consider(task, text) for text, _ in asks]).result()
    rows = []
    for pick, (_, outcome) in zip(picks, asks, strict=True):
        rows += project.checked_signals(pick.id, {"reward": outcome(pick.action)})
    project.submit_signals(rows).result()
    return [pick.id for pick in picks]


def play(folder: Path, n: int, seed: int = 7, task: str = "route") -> list[str]:
    """Sample traffic, rewarded; the decision ids."""
    with headway.open(folder, environ={}, seed=seed, source="synthetic") as project:
        asks = [(ask.text, ask.outcome) for ask in headway.sample("route", n=n, seed=seed)]
        return rewarded(project, task, asks)


def lying(folder: Path, first: int, last: int, *, bad: float, good: float, task: str = "route") -> None:
    """Traffic on two arms with these rewards."""
    with headway.open(folder, environ={}, seed=first + 1) as project:
        earned = {"bad": bad, "good": good}
        rewarded(project, task, [(f"question {number}", earned.__getitem__) for number in range(first, last)])


def kinds(project: Project, task: str = "route") -> list[str]:
    return [entry.kind for entry in project.ledger.entries(task)]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    """`watching(toml)` opens a watch over the test's folder; it is closed afterwards."""
    opened: list[Watch] = []

    def open_one(toml: str = "", **more: Any) -> Watch:
        if toml:
            (tmp_path / "headway.toml").write_text(toml, "utf-8")
        watch = Watch(tmp_path, **{"environ": {}, "machine": lambda _: ROOMY, **more})
        watch.__enter__()
        opened.append(watch)
        return watch

    yield open_one
    for project in opened:
        project.__exit__(None, None, None)

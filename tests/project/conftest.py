"""Projects in the test's own folder, and traffic through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headway
from headway.project import Project

ARMS = ["small", "large"]


def play(project: Project, n: int = 1200, seed: int = 7, task: str = "route") -> list[str]:
    """Sample traffic, rewarded; the decision ids."""
    ids = []
    for ask in headway.sample("route", n=n, seed=seed):
        pick = project.decide(task, ask.text, ARMS)
        project.signal(pick.id, reward=ask.outcome(pick.action))
        ids.append(pick.id)
    return ids


@pytest.fixture
def opened(tmp_path: Path, environ: dict[str, str]) -> Iterator[Callable[..., Project]]:
    """`opened(toml)` opens the project in this test's folder; all are closed afterwards."""
    projects = []

    def open_one(toml: str = "", **more: object) -> Project:
        if toml:
            (tmp_path / "headway.toml").write_text(toml)
        projects.append(headway.open(tmp_path, **{"environ": environ, "seed": 3, **more}))
        return projects[-1]

    yield open_one
    for project in projects:
        project.close()


@pytest.fixture
def project(opened: Callable[..., Project]) -> Project:
    return opened()

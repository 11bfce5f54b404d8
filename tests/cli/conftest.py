"""A project that has been through the whole loop once, and copies of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.terminal import headway


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's project; tests must not change it."""
    folder = tmp_path_factory.mktemp("played") / "demo"
    done = headway("demo", "route", "--out", folder, "--n", 1500)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def project(played: Path, tmp_path: Path) -> Path:
    """A copy of the demo's project: bandit@… is current, uniform@0 was current before."""
    return Path(shutil.copytree(played, tmp_path / "project"))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder

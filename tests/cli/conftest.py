"""A project that has been through the whole loop once, and copies of it to play with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.terminal import headway


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's project; read-only by agreement."""
    folder = tmp_path_factory.mktemp("played") / "demo"
    done = headway("demo", "route", "--out", folder, "--n", 1500)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def project(played: Path, tmp_path: Path) -> Path:
    """A copy of it: bandit@… is current, uniform@0 was before."""
    return Path(shutil.copytree(played, tmp_path / "project"))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder

"""Thirty kills of the importer and of the server: what is stored is exactly what was read or answered."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.imports import INTERACTION, lines
from tests.project.test_import import kill_and_resume
from tests.serve.conftest import Running, served  # noqa: F401 — a fixture
from tests.serve.test_parity import killed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thirty_kills_of_an_import_lose_nothing_and_add_nothing_twice(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [{**INTERACTION, "prompt": f"{n}"} for n in range(40_000)])
    folder = tmp_path / "project"
    folder.mkdir()
    limits = sorted(1000 * place for place in random.Random(23).choices(range(1, 38), k=30))
    kill_and_resume(folder, path, 40_000, limits)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thirty_kills_of_the_server_lose_no_answered_decision(served: Callable[..., Running]) -> None:  # noqa: F811
    killed(served, 30, seed=23)

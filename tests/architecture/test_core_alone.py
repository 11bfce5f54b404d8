"""The core knows no kit: its tests pass where `kits/` has `demo`, `offline` and what these need, and nothing else.

A test that needs another kit says so by a mark, or by importing it, and is left out (`tests/conftest.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.kits import BUILT_IN
from tests.architecture.rooms import ROOT, SOURCE
from tests.architecture.test_kits import needed

KEPT = {"demo", "offline"} | needed("demo") | needed("offline")
FOLDERS = (
    "cli", "clients", "compatibility", "contract", "decide", "encode", "learn", "loop", "nouns", "observe", "project",
    "promote", "prove", "reward", "serve", "settings",
)  # fmt: skip
FEW = ("tests/nouns", "tests/decide/test_pipeline.py", "tests/cli/test_version.py")


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of src with the core and these kits."""
    source = tmp_path_factory.mktemp("alone") / "src"
    shutil.copytree(SOURCE, source / "headway", ignore=shutil.ignore_patterns("__pycache__"))
    kits = source / "headway" / "kits"
    for name in set(BUILT_IN) - KEPT:
        shutil.rmtree(kits / name)
    listed = kits / "__init__.py"
    kept = tuple(name for name in BUILT_IN if name in KEPT)
    listed.write_text(re.sub(r"BUILT_IN = \(.*?\)", f"BUILT_IN = {kept}", listed.read_text("utf-8"), flags=re.DOTALL))
    return source


def run_tests(source: Path, *paths: str) -> str:
    """What pytest says of tests with that copy."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    where = [sys.executable, "-c", "import headway; print(headway.__file__)"]
    found = subprocess.run(where, env=environment, cwd=source, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(source)), found
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    return done.stdout


def test_few_kits_are_left() -> None:
    assert len(KEPT) <= 10, sorted(KEPT)


@pytest.mark.timeout(240)
def test_some_tests_of_the_core_pass_without_other_kits(alone: Path) -> None:
    assert re.search(r"\d{2,} passed", run_tests(alone, *FEW))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_tests_of_the_core_pass_without_other_kits(alone: Path, folder: str) -> None:
    assert re.search(r"[1-9]\d* passed", run_tests(alone, f"tests/{folder}"))

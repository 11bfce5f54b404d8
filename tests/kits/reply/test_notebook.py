"""examples/learn_from_ratings.ipynb: every cell runs, from the first question to a verdict, on a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

NOTEBOOK = ROOT / "examples" / "learn_from_ratings.ipynb"


def cells() -> list[str]:
    document = json.loads(NOTEBOOK.read_bytes())
    assert document["nbformat"] == 4
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def test_the_cells_are_whole_and_hold_no_output() -> None:
    for place, cell in enumerate(cells()):
        compile(cell, f"cell {place}", "exec")
    assert all(not cell.get("outputs") for cell in json.loads(NOTEBOOK.read_bytes())["cells"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_notebook_learns_and_judges(tiny: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(cells())],
        env={**os.environ, "HEADWAY_BASE": str(tiny)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "36 replies rated" in done.stdout
    assert "language@" in done.stdout
    assert "'wins'" in done.stdout

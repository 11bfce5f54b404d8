"""`make size`: what it counts, on this tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.architecture.rooms import ROOT, SOURCE, files, kits, rooms

CEILING, CORE = 106_500, 46_500  # lines in all, and of the core; lower them when the tree gets smaller
NAMES = 267  # of the core that kits use
TRACES = {"Project.decide": (49, 16), "POST /v1/decisions": (67, 26)}  # most functions and files of one decision


def test_the_size_of_every_room_and_kit_is_counted() -> None:
    script = ROOT / "scripts" / "size.py"
    done = subprocess.run([sys.executable, script, "--json"], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert {*rooms(), *(f"kits/{kit}" for kit in kits())} <= report["rooms"].keys()
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in files())
    assert report["core"]["lines"] + report["kits"]["lines"] == lines <= CEILING
    assert report["core"]["lines"] <= CORE
    assert report["core"]["files"] + report["kits"]["files"] == len(list(Path(SOURCE).rglob("*.py")))
    assert report["names_kits_use"] <= NAMES
    assert report["modules_in_cycles"] == 0, "imports for types and inside functions count"
    for call, (functions, modules) in TRACES.items():
        assert 10 < report["trace"][call]["functions"] <= functions, call
        assert 5 < report["trace"][call]["files"] <= modules, call

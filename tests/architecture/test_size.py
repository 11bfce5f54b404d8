"""`make size`: what it counts, on this tree."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from tests.architecture.rooms import ROOT, SOURCE, files, kits, rooms

CEILING, CORE = 108_962, 46_827  # lines in all, and of the core; lower them when the tree gets smaller
NAMES = 229  # of the core that kits use, those of modules imported whole included
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


def test_a_name_of_a_module_that_is_imported_whole_counts_like_one_that_is_imported_by_itself() -> None:
    spec = importlib.util.spec_from_file_location("size", ROOT / "scripts" / "size.py")
    assert spec is not None
    assert spec.loader is not None
    size = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(size)
    sources = {
        "headway.nouns": "from headway.nouns import errors as errors\nfrom headway.nouns.errors import Busy as Busy",
        "headway.nouns.errors": "class Busy(Exception): ...\nclass Conflict(Exception): ...",
        "headway.kits.one.routes": "from headway.nouns import errors\nraise errors.Busy\nraise errors.Conflict",
        "headway.kits.two.routes": "from headway.nouns import Busy",
    }
    _, used = size._edges({name: ast.parse(text) for name, text in sources.items()})
    both = {"headway.kits.one.routes", "headway.kits.two.routes"}
    assert used == {"headway.nouns.errors.Busy": both, "headway.nouns.errors.Conflict": {"headway.kits.one.routes"}}

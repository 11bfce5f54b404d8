"""Without the packages of any extra, commands answer; one that needs an extra names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.kits("*")
def test_no_command_ends_in_a_traceback_without_the_extras(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.light", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ended = {line: code for line, _, code in map(json.loads, done.stdout.splitlines())}
    needing = {line for line in ended if line.startswith("grow ") or "--world" in line}
    assert len(needing) == 5
    assert {ended[line] for line in needing} == {"missing_extra"}

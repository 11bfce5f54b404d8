"""Without the packages of any extra, commands answer; one that needs an extra names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.main import _extra_with
from tests.conftest import ROOT

NEEDING = {
    "grow ablate x", "grow bench", "grow evaluate", "grow train", "learn --world cartpole",
    "learn --world morph", "mcp",
}  # fmt: skip


@pytest.mark.kits("*")
@pytest.mark.parametrize("mode", ["quick", pytest.param("all", marks=pytest.mark.slow)])
def test_every_command_answers_without_the_extras_and_few_need_one(tmp_path: Path, mode: str) -> None:
    command = [sys.executable, "-m", "tests.cli.light", str(tmp_path), mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ended = {line: code for line, _, code in map(json.loads, done.stdout.splitlines())}
    assert len(ended) > (60 if mode == "quick" else 65)
    assert {line for line, code in ended.items() if code == "missing_extra"} == NEEDING
    assert [ended[line] for line in ("doctor", "learn route", "compare route", "sim run --tasks p.jsonl")] == [""] * 4


def test_a_missing_package_is_asked_for_by_the_smallest_extra() -> None:
    extras = {"torch": "learn", "gymnasium": "worlds", "onnxruntime": "text", "transformers": "language", "numpy": ""}
    assert {module: _extra_with(module) for module in extras} == extras

"""`headway doctor` says what would stop a run, before it starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.kits.next_action.improve.doctor import check
from headway.nouns import Finding
from headway.settings import load
from tests.kits.next_action.improve.conftest import Ground, scored
from tests.kits.next_action.improve.test_command import headway


def findings(ground: Ground, **settings: Any) -> list[Finding]:
    ground.offer(scored(2), **settings)
    ground.commit()
    return list(check(load(ground.folder, {})))


def test_an_improver_that_can_run_is_one_line(ground: Ground) -> None:
    (finding,) = findings(ground, read_only=["eval.sh"], eval=["sh", "./eval.sh"])
    assert (finding.name, finding.ok) == ("improver up", True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"eval": ["pytset", "-q"]}, "eval names 'pytset'"),
        ({"eval": ["python3", "bench.py"]}, "eval names 'bench.py'"),
        ({"eval": ["./run.sh"]}, "eval names './run.sh'"),
        ({"eval": ["venv/bin/python", "eval.sh"], "readable": ["venv"]}, "readable names 'venv'"),
        ({"read_only": ["test/**"]}, "read_only names 'test/**'"),
        ({"proposals": "other.jsonl"}, "'other.jsonl' does not exist"),
        ({"repeats": 2}, "too few to keep anything"),
        ({"task": "nope"}, "No task is called 'nope'"),
    ],
)
def test_what_would_stop_a_run_is_found(ground: Ground, settings: dict[str, Any], words: str) -> None:
    first, *_ = findings(ground, **settings)
    assert first.ok is False
    assert words in first.found
    assert first.cure


def test_a_missing_sandbox_is_reported_with_its_cure(
    ground: Ground, tmp_path: Path, need_tool: Callable[..., str]
) -> None:
    ground.offer(scored(2))
    ground.commit()
    (tmp_path / "git").symlink_to(need_tool("git", package="git"))
    done = headway(ground.folder, "doctor", path=str(tmp_path))
    assert done.returncode == 1
    assert "improver up" in done.stdout
    assert "bubblewrap" in done.stdout

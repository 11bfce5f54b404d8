"""A real training buffer through the terminal: imported, checked for leaks, refused, and learned from by force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import headway as terminal


def buffer(path: Path, rows: int = 24) -> Path:
    """A small buffer in jfl's form whose last delta is the reward itself, as in the buffers that it writes."""
    lines = [json.dumps(_round(number)) for number in range(rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _round(number: int) -> dict[str, Any]:
    delta = round(0.01 * (number % 5) - 0.02, 3)
    words = ("parser", "cache", "login", "docs")[number % 4]
    return {
        "id": f"tb_{number}", "v": 1, "ts": f"2026-03-{1 + number:02}T10:00:00Z", "agent": "peter",
        "state": {
            "composite_score": 0.9, "dimension_scores": {"speed": 0.01 * number}, "tests_passing": 90 + number % 3,
            "tests_total": 100, "trajectory_length": 2, "recent_deltas": [0.003 * (number % 7), delta],
        },
        "action": {
            "type": ("fix", "test")[number % 2], "description": f"Improve the {words}, attempt {number}",
            "files_affected": [], "scope": "small", "branch": f"b{number}",
        },
        "reward": {"composite_delta": delta, "improved": delta > 0},
        "metadata": {"branch": f"b{number}", "source": "autoresearch"},
    }  # fmt: skip


def walk(folder: Path, path: Path) -> dict[str, Any]:
    """What a stranger does with a buffer; the answers of every step."""
    terminal("-C", folder, "init", "--kind", "ranking")
    imported = terminal("-C", folder, "data", "import", path, "--task", "next-action")
    assert imported.code == 0, imported.err
    leaks = terminal("-C", folder, "data", "leaks", "next-action")
    checked = terminal("-C", folder, "learn", "next-action", "--check", "--json")
    refused = terminal("-C", folder, "learn", "next-action", "--json")
    forced = terminal("-C", folder, "learn", "next-action", "--force", "--set", "architecture=linear")
    return {"imported": imported, "leaks": leaks, "checked": checked, "refused": refused, "forced": forced}


def check(steps: dict[str, Any]) -> None:
    assert "recent_deltas[-1]" in steps["imported"].out
    assert "recent_deltas" in steps["leaks"].out
    assert steps["checked"].code == 3
    assert any("200 are needed" in reason for reason in steps["checked"].json["reasons"])
    assert any("recent_deltas" in reason for reason in steps["checked"].json["reasons"])
    assert steps["refused"].code == 1
    error = steps["refused"].json["error"]
    assert error["code"] == "too_few_rows"
    assert "labelled rows can be read" in error["message"]
    assert "kept for the proof" in error["message"]
    assert steps["forced"].code == 0, steps["forced"].err
    assert "next to nothing about new actions" in steps["forced"].out


def test_a_small_buffer_is_refused_with_the_reason_and_learned_from_by_force(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    check(walk(folder, buffer(tmp_path / "training-buffer.jsonl")))
    proved = terminal("-C", folder, "prove", "next-action")
    assert "TOO EARLY" in proved.out
    assert "at least 200 needed" in proved.out
    assert terminal("-C", folder, "promote", "next-action").code == 1


@pytest.mark.slow
def test_the_real_buffer_is_refused_with_the_reason_and_learned_from_by_force(
    tmp_path: Path, shared_data: Path
) -> None:
    steps = walk(tmp_path, shared_data / "jfl" / "training-buffer.jsonl")
    check(steps)
    assert "9 of 10 labelled rows give their outcome away" in steps["leaks"].out

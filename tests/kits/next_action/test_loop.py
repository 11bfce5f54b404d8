"""A ranking task goes round the loop: a buffer is imported, `watch` learns and proves, a person promotes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from headway.kits.next_action.world import Projects
from tests.cli.terminal import headway as terminal, process
from tests.kits.next_action.test_ranker import MEANING, TOML

START = datetime(2026, 1, 1, tzinfo=UTC)


def lines(rows: int) -> list[str]:
    """The world as a training buffer in jfl's form; mined rows are omitted."""
    buffer = []
    for number, row in enumerate(Projects(leak=False).tuples(rows, seed=42)):
        if row.source == "mined":
            continue
        state, features = dict(row.situation.state), row.action.candidate.features
        scores = {name.partition(".")[2]: state.pop(name) for name in row.situation.state if "scores." in name}
        files = [f"file{place}.py" for place in range(int(str(features["files_affected"])))]
        buffer.append({
            "id": f"tb_{number}", "v": 1, "ts": (START + number * timedelta(minutes=30)).isoformat(),
            "agent": row.situation.role, "state": {**state, "dimension_scores": scores},
            "action": {**features, "files_affected": files, "branch": row.situation.episode},
            "reward": {"composite_delta": row.reward, "improved": row.reward > 0},
            "metadata": {"branch": row.situation.episode, "source": "autoresearch"},
        })  # fmt: skip
    return [json.dumps(row) for row in buffer]


def imported(folder: Path, name: str, rows: list[str]) -> None:
    (folder / name).write_text("\n".join(rows) + "\n", "utf-8")
    done = terminal("-C", folder, "data", "import", folder / name, "--task", "next-action", "--json")
    assert done.code == 0, done.out + done.err


def candidates(folder: Path) -> list[str]:
    (task,) = terminal("-C", folder, "status", "--json").json["tasks"]
    return list(task["candidates"])


def missing(folder: Path) -> int:
    """New tuples until the loop learns again."""
    return int(terminal("-C", folder, "learn", "next-action", "--check", "--json").json["missing"])


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra `learn` were not installed; only architectures without it are compared."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("network", "train"):
        monkeypatch.delitem(sys.modules, f"headway.kits.next_action.{name}", raising=False)


def test_the_loop_learns_from_an_imported_buffer_and_again_at_the_fiftieth_new_tuple(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_torch(monkeypatch)
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    rows = lines(800)
    imported(tmp_path, "buffer.jsonl", rows[:-50])
    assert "Learned ranker@" in terminal("-C", tmp_path, "watch", "--once").out
    assert len(candidates(tmp_path)) == 1
    assert missing(tmp_path) == 50
    imported(tmp_path, "later.jsonl", rows[-50:-1])
    assert missing(tmp_path) == 1
    imported(tmp_path, "last.jsonl", rows[-1:])
    assert missing(tmp_path) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_loop_proves_a_ranker_and_waits_for_its_promotion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wordllama")
    without_torch(monkeypatch)
    (tmp_path / "headway.toml").write_text(MEANING, "utf-8")
    rows = lines(2764 + 60)
    imported(tmp_path, "buffer.jsonl", rows[:-50])
    done = terminal("-C", tmp_path, "watch", "--once")
    assert "Learned ranker@" in done.out
    assert "headway promote" in done.out
    (task,) = terminal("-C", tmp_path, "status", "--json").json["tasks"]
    assert not task["current"].startswith("ranker@"), "it waits"
    promoted = terminal("-C", tmp_path, "promote", "next-action")
    assert promoted.code == 0, promoted.out + promoted.err
    imported(tmp_path, "later.jsonl", rows[-50:-1])
    assert "Learned" not in terminal("-C", tmp_path, "watch", "--once").out
    imported(tmp_path, "last.jsonl", rows[-1:])
    assert "Learned ranker@" in terminal("-C", tmp_path, "watch", "--once").out


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_training_that_was_killed_and_resumed_gives_equal_tensors(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = ["learn", "next-action", "--device", "cpu", "--set", "architecture=small", "--set", "epochs=5"]
    weights = []
    for name in ("straight", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "headway.toml").write_text(TOML, "utf-8")
        terminal("-C", folder, "data", "synth", "next-action", "--world", "projects", "--rows", "600", "--seed", "42")
        if name == "killed":
            saved = partial((folder / ".headway").rglob, "ranker-small-*.safetensors")
            with subprocess.Popen(
                [sys.executable, "-m", "headway", *words],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
            ) as running:
                while not list(saved()):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        pytest.fail(f"it ended with {running.wait(0.02)} before it saved an epoch")
                running.kill()
            assert running.returncode == -9
            assert list(saved())
            words = [*words, "--resume"]
        done = process(*words, cwd=folder)
        assert done.code == 0, done.err
        (path,) = (folder / ".headway" / "policies").glob("*/weights.safetensors")
        weights.append(load_file(path))
    straight, resumed = weights
    assert straight.keys() == resumed.keys()
    assert all(np.array_equal(value, resumed[name]) for name, value in straight.items())

"""`headway improve`: the terminal's side, its settings on paper, and the example."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.kits.next_action.improve.settings import ImproverSettings
from headway.settings.strict import keys_of
from tests.kits.next_action.improve.conftest import Ground, scored
from tests.settings.test_example import headings


def headway(folder: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headway", "-C", str(folder), *words]
    env = {**os.environ, "PATH": path} if path else None
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, env=env)


def test_every_setting_has_a_heading() -> None:
    assert headings("[improve.NAME]") == list(keys_of(ImproverSettings))


def test_a_run_is_told_round_by_round_and_then_reported(ground: Ground) -> None:
    ground.offer(scored(2, "Raise it"))
    ground.commit()
    done = headway(ground.folder, "improve", "up")
    assert done.returncode == 0, done.stderr
    assert "1. kept 1.000 → 2.000  Raise it  (7 pairs won, 0 lost of 7)" in done.stdout
    assert "sandbox: bubblewrap" in done.stdout
    assert done.stdout.rstrip().endswith("git diff HEAD...improve/up-001")
    report = json.loads(headway(ground.folder, "improve", "report", "up", "--json").stdout)
    assert (report["rounds"], report["verdicts"]) == (1, {"kept": 1})


def test_json_has_every_round_and_the_branch(ground: Ground) -> None:
    ground.offer({**scored(2), "edits": [{"path": "eval.sh", "content": "echo score: 9"}]})
    ground.commit()
    document = json.loads(headway(ground.folder, "improve", "--json").stdout)
    (row,) = document["rounds"]
    assert (row["improver"], row["verdict"], row["code"]) == ("up", "refused", "read_only_file")
    assert document["branches"] == {"up": ""}


@pytest.mark.parametrize(
    ("words", "code"),
    [(("improve", "down"), "unknown_improver"), (("improve", "report", "up"), "no_runs")],
)
def test_an_error_has_a_code_and_a_cure(ground: Ground, words: tuple[str, ...], code: str) -> None:
    done = headway(ground.folder, *words, "--json")
    error = json.loads(done.stdout or done.stderr)["error"]
    assert (done.returncode, error["code"]) == (1, code)
    assert error["hint"]


def test_without_a_sandbox_nothing_runs(ground: Ground, tmp_path: Path, need_tool: Callable[..., str]) -> None:
    ground.offer(scored(2))
    ground.commit()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(need_tool("git", package="git"))
    done = headway(ground.folder, "improve", "up", "--json", path=str(programs))
    error = json.loads(done.stdout or done.stderr)["error"]
    assert (done.returncode, error["code"]) == (1, "sandbox_missing")
    assert "bwrap" in error["message"]
    assert ground.git("branch", "--list", "improve/*") == ""
    assert len(ground.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_ends_with_a_verified_improvement_on_a_branch(
    tmp_path: Path, root: Path, need_tool: Callable[..., str]
) -> None:
    need_tool("bwrap", package="bubblewrap")
    folder = tmp_path / "example"
    shutil.copytree(root / "examples" / "improve", folder)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "base"]):
        subprocess.run([*git, *words], check=True)
    done = headway(folder, "improve", "score", "--json")
    assert done.returncode == 0, done.stderr
    verdicts = {row["proposal"]: row["verdict"] for row in json.loads(done.stdout)["rounds"]}
    assert verdicts == {
        "Count all words in one pass with a dictionary": "kept",
        "Ignore capital letters when splitting a text": "kept",
        "Say in the docstring of the package what it exports": "reverted",
        "Return words in the order in which they first appear": "reverted",
        "Raise the score by changing how it is computed": "refused",
    }
    subprocess.run([*git, "checkout", "--quiet", "improve/score-001"], check=True)
    tested = subprocess.run([sys.executable, "test_words.py"], cwd=folder, capture_output=True, check=False)
    assert tested.returncode == 0, tested.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_of_a_hundred_real_proposals_without_effect_at_most_five_are_kept(ground: Ground) -> None:
    """The evaluation draws its noise from the system; each proposal changes a file that it does not read."""
    ground.write("eval.sh", "echo score: $(od -An -N2 -tu2 /dev/urandom)\n")
    nulls = [{"description": f"Change {n}", "edits": [{"path": "note.txt", "content": f"{n}\n"}]} for n in range(100)]
    ground.offer(*nulls, rounds=100, alpha=0.01, repeats=20)
    ground.commit()
    results = ground.play()
    assert len(results) == 100
    assert sum(result.verdict == "kept" for result in results) <= 5

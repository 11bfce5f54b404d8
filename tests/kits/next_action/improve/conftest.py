"""A small repository to improve: the evaluation prints the number in score.txt."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.kits.next_action.improve.run import Run, opened_run
from headway.kits.next_action.improve.run_state import RoundResult
from headway.project import Project

EVAL = 'echo "score: $(cat score.txt)"\n'


class Ground:
    """A project in a git repository, with one improver called `up`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / ".headway").mkdir()
        self.write(".gitignore", ".headway\n")
        self.write("eval.sh", EVAL)
        self.write("score.txt", "1\n")
        self.settings: dict[str, Any] = {
            "scope": "Raise the score", "metric": "score", "eval": ["sh", "eval.sh"], "files": ["*.txt", "src/**"],
            "proposals": "proposals.jsonl", "alpha": 0.2, "repeats": 8, "rounds": 4, "timeout_s": 20,
        }  # fmt: skip
        self.tasks = '[tasks.next-action]\nkind = "ranking"\n'
        self.git("init", "--quiet")
        self.offer()
        self.commit()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.folder), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "base")
        return self.git("rev-parse", "HEAD").strip()

    def offer(self, *proposals: dict[str, Any], **settings: Any) -> None:
        """Write the proposals and the settings, committed."""
        self.settings |= settings
        table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.settings.items())
        self.write("headway.toml", f"{self.tasks}\n[improve.up]\n{table}")
        self.write("proposals.jsonl", "".join(json.dumps(proposal) + "\n" for proposal in proposals))

    def play(self, **settings: Any) -> list[RoundResult]:
        """Play a whole run; returns its rounds."""
        results: list[RoundResult] = []
        with Project(self.folder, seed=7) as project, opened_run(project, "up", **settings) as run:
            while (result := run.step()) is not None:
                results.append(result)
            self.last: Run = run
        return results

    def everything(self) -> dict[str, bytes]:
        """Every file of the working tree, without .git and .headway."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        names = {path.relative_to(self.folder).as_posix(): path for path in paths}
        return {name: path.read_bytes() for name, path in names.items() if not name.startswith((".git/", ".headway/"))}


def scored(number: object, description: str = "", **more: Any) -> dict[str, Any]:
    """A proposal that sets the score."""
    edits = [{"path": "score.txt", "content": f"{number}\n"}]
    return {"description": description or f"Score {number}", "type": "fix", "scope": "small", "edits": edits, **more}


@pytest.fixture
def ground(tmp_path: Path, need_tool: Callable[..., str]) -> Ground:
    need_tool("git", package="git")
    need_tool("bwrap", package="bubblewrap")
    return Ground(tmp_path / "repository")

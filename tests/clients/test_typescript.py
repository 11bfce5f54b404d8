"""The tests of clients/typescript, with the installed Node, against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def client(root: Path) -> Path:
    return root / "clients" / "typescript"


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HEADWAY_COMMAND": json.dumps([sys.executable, "-m", "headway"])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def installed(folder: Path) -> bool:
    """Whether node_modules matches the lock file: a second run then needs no network."""
    try:
        there = json.loads((folder / "node_modules" / ".package-lock.json").read_text("utf-8"))["packages"]
    except (OSError, ValueError, KeyError):
        return False
    asked = json.loads((folder / "package-lock.json").read_text("utf-8"))["packages"]
    return all(there.get(name, {}).get("version") == request["version"] for name, request in asked.items() if name)


def test_the_generated_types_match_the_openapi_document(client: Path, need_tool: Callable[..., str]) -> None:
    run(need_tool("node"), client / "scripts" / "generate.mjs", "--check", folder=client)


@pytest.fixture(scope="module")
def npm(client: Path, need_tool: Callable[..., str]) -> str:
    """npm, with the client's dependencies installed."""
    need_tool("node")
    program = need_tool("npm", package="nodejs")
    if not installed(client):
        run(program, "ci", "--no-audit", "--no-fund", folder=client)
    return program


@pytest.mark.timeout(400)
@pytest.mark.kits("*")
def test_the_client_builds_and_talks_to_a_real_server(client: Path, npm: str, need_tool: Callable[..., str]) -> None:
    run(npm, "run", "build", folder=client)
    output = run(need_tool("node"), "--test", "test/client.test.mjs", folder=client)
    assert "# fail 0" in output
    assert "# skipped 0" in output


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_client_passes_its_own_tests(client: Path, npm: str) -> None:
    output = run(npm, "test", folder=client)
    assert "# fail 0" in output
    assert "# skipped 0" in output

"""The Dockerfile as text, since it cannot be built here, and its health check for real."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headway.loop.health import healthy
from tests.loop.running import up

INSTRUCTIONS = {
    "FROM",
    "WORKDIR",
    "ARG",
    "COPY",
    "RUN",
    "ENV",
    "USER",
    "VOLUME",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "CMD",
}


def stages(text: str) -> list[list[tuple[str, str]]]:
    """The instructions of each stage, continued lines joined, comments left out."""
    stages_read: list[list[tuple[str, str]]] = []
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            if name == "FROM":
                stages_read.append([])
            stages_read[-1].append((name, rest.strip()))
    return stages_read


@pytest.fixture(scope="module")
def docker(root: Path) -> list[list[tuple[str, str]]]:
    return stages((root / "Dockerfile").read_text("utf-8"))


def test_every_instruction_is_one(docker):
    assert {name for stage in docker for name, _ in stage} <= INSTRUCTIONS


def test_what_is_copied_is_there_or_comes_from_an_earlier_stage(docker, root):
    names: list[str] = []
    ignored = (root / ".dockerignore").read_text("utf-8").splitlines()
    for stage in docker:
        for name, rest in stage:
            if name != "COPY":
                continue
            words = shlex.split(rest)
            if words[0].startswith("--from="):
                assert words[0].removeprefix("--from=") in names
                continue
            for source in words[:-1]:
                assert (root / source).exists(), source
                assert f"!{source.split('/')[0]}" in ignored, f"{source} does not reach the build"
        words = stage[0][1].split(" AS ")
        names.append(words[1] if len(words) == 2 else "")
    assert names == ["page", "package", ""]


def test_the_last_stage_runs_without_rights_and_is_checked(docker):
    last = docker[-1]
    order = [name for name, _ in last]
    assert ("USER", "headway") in last
    assert not [name for name, _ in last[order.index("USER") :] if name in ("RUN", "COPY")]
    assert "HEALTHCHECK" in order
    assert dict(last)["STOPSIGNAL"] == "SIGTERM"
    assert "npm" not in " ".join(rest for _, rest in last), "tools stay in their stages"


def test_its_commands_are_commands_of_ours(docker):
    last = dict(docker[-1])
    command = json.loads(last["CMD"])
    assert command[:4] == ["headway", "-C", "/project", "up"]
    shown = subprocess.run(
        [sys.executable, "-m", "headway", "up", "--help"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert all(option in shown.stdout for option in command if option.startswith("--"))
    check = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert check[:4] == ["python", "-P", "-m", "headway.loop.health"]


def test_the_health_check_knows_a_server_that_listens_everywhere(tmp_path):
    assert not healthy(tmp_path)
    with up(tmp_path, "--host", "0.0.0.0", "--port", "0", "--no-watch") as running:
        running.ready()
        assert healthy(tmp_path)
        body = {"task": "route", "text": "x", "candidates": ["a", "b"]}
        status = running.ask("POST", "/v1/decisions", body)[0]
        assert status == 401, "any address but loopback asks for a key"
        assert running.stop() == 0
    assert not healthy(tmp_path)

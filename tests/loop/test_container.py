"""The Dockerfile, checked as text because it cannot be built here, and its real health check."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headway.loop.health import healthy
from tests.loop.running import up

WHEEL = "dist/headway-*.whl"
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
    """The instructions of each stage, with continued lines joined and without comments."""
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


def test_every_instruction_is_valid(docker):
    assert {name for stage in docker for name, _ in stage} <= INSTRUCTIONS


def test_copied_files_exist_or_come_from_an_earlier_stage(docker, root):
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
                assert (root / source).exists() or source == WHEEL, source
                assert f"!{source.split('/')[0]}" in ignored, f"{source} does not reach the build"
        words = stage[0][1].split(" AS ")
        names.append(words[1] if len(words) == 2 else "")
    assert names == ["package", ""]


def test_the_image_is_built_from_the_wheel_that_make_wheel_writes(docker, root):
    assert [rest for name, rest in docker[0] if name == "COPY"] == [f"constraints.txt {WHEEL} ./"]
    recipe = (root / "Makefile").read_text("utf-8").partition("\nwheel:")[2].partition("\n\n")[0]
    assert "hatchling build -d dist" in recipe


def test_the_last_stage_runs_unprivileged_with_a_health_check(docker):
    last = docker[-1]
    order = [name for name, _ in last]
    assert ("USER", "headway") in last
    assert not [name for name, _ in last[order.index("USER") :] if name in ("RUN", "COPY")]
    assert "HEALTHCHECK" in order
    assert dict(last)["STOPSIGNAL"] == "SIGTERM"
    assert "npm" not in " ".join(rest for _, rest in last), "tools stay in their stages"


def test_the_commands_of_the_dockerfile_parse(docker):
    last = dict(docker[-1])
    command = json.loads(last["CMD"])
    assert command[:4] == ["headway", "-C", "/project", "up"]
    shown = subprocess.run(
        [sys.executable, "-m", "headway", "up", "--help"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert all(option in shown.stdout for option in command if option.startswith("--"))
    check = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert check[:4] == ["python", "-P", "-m", "headway.loop.health"]


def test_the_health_check_works_with_a_server_on_all_addresses(tmp_path):
    assert not healthy(tmp_path)
    with up(tmp_path, "--host", "0.0.0.0", "--port", "0", "--no-watch") as running:
        running.ready()
        assert healthy(tmp_path)
        body = {"task": "route", "text": "x", "candidates": ["a", "b"]}
        status = running.ask("POST", "/v1/decisions", body)[0]
        assert status == 401, "every address except loopback needs a key"
        assert running.stop() == 0
    assert not healthy(tmp_path)

"""Docker, with a fake client that records its calls, and with a real engine if there is one."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.kits.sandbox import Limits, sandbox
from headway.kits.sandbox.docker import IMAGE, Docker, build_image, dockerfile
from headway.nouns.errors import Unavailable
from tests.kits.sandbox import escapes
from tests.kits.sandbox.test_sandbox import QUICK

FAKE = """#!{python} -I
import json, os, subprocess, sys
folder = {folder!r}
with open(folder + "/calls", "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
mode = open(folder + "/mode").read()
verb = sys.argv[1]
if verb == "version":
    if mode == "down":
        sys.exit("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
    print("28.0.0")
elif verb == "image":
    sys.exit(1 if mode == "no image" else 0)
elif verb == "run":
    if mode == "hang":
        import time
        time.sleep(600)
    at = sys.argv.index("{image}")
    sys.exit(subprocess.run([sys.executable, *sys.argv[at + 2:]]).returncode)
"""


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "docker"
        program.write_text(FAKE.format(python=sys.executable, folder=str(folder), image=IMAGE), "utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.mode("up")

    def mode(self, what: str) -> None:
        (self.folder / "mode").write_text(what, "utf-8")

    def calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return Fake(tmp_path)


def test_docker_runs_with_every_restriction(docker: Fake) -> None:
    result = sandbox("docker").run("print(6 * 7)", files={"a.txt": "x"}, limits=QUICK)
    assert (result.status, result.stdout, result.sandbox) == ("passed", "42\n", "docker"), result
    argv = docker.calls()[-1]
    pairs = set(itertools.pairwise(argv))
    memory = str(QUICK.memory_bytes + (64 << 20))
    assert {
        ("--network", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--user", "65534:65534"),
        ("--memory", memory),
        ("--memory-swap", memory),
        ("--cpus", "1"),
        ("--pids-limit", str(QUICK.processes + 4)),
        ("--ipc", "none"),
        ("--pull", "never"),
    } <= pairs
    assert {"--read-only", "--rm", "--init"} <= set(argv)
    assert any(value.startswith("/tmp:") and f"size={QUICK.disk_bytes}" in value for value in argv)
    assert not {"--privileged", "--volume", "-v", "--mount", "--env", "-e"} & set(argv)


def test_docker_kills_the_container_on_a_timeout_and_not_just_the_client(
    docker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.kits.sandbox.docker.GRACE_S", 0.1)
    monkeypatch.setattr("headway.kits.sandbox.docker._START_S", 0.5)
    docker.mode("hang")
    result = sandbox("docker").run("while True: pass", limits=Limits(wall_s=0.2))
    assert result.status == "timeout"
    calls = docker.calls()
    container = calls[2][calls[2].index("--name") + 1]
    assert ["kill", "--signal", "KILL", container] in calls
    assert ["rm", "--force", container] in calls


@pytest.mark.parametrize(("mode", "says"), [("down", "running engine"), ("no image", "no image")])
def test_without_an_engine_or_its_image_nothing_runs(docker: Fake, mode: str, says: str) -> None:
    docker.mode(mode)
    with pytest.raises(Unavailable, match=says) as caught:
        sandbox("docker")
    assert caught.value.code == "sandbox_missing"
    assert "run" not in {call[0] for call in docker.calls()}


def test_auto_takes_docker_where_its_engine_answers_and_bubblewrap_otherwise(
    docker: Fake, need_tool: Callable[..., str]
) -> None:
    assert sandbox("auto").name == "docker"
    docker.mode("down")
    need_tool("bwrap", package="bubblewrap")
    assert sandbox("auto").name == "bubblewrap"


def test_solutions_are_judged_in_a_container_each(docker: Fake) -> None:
    from headway.kits.simulator.judge import CodeJudge, JudgeJob
    from tests.kits.simulator.attacks import FORGERS, GUESS, PROBLEM

    with CodeJudge("docker") as judge:
        right, wrong, forged = judge.run(
            [
                JudgeJob(key="right", problem=PROBLEM, solution=PROBLEM.reference),
                JudgeJob(key="wrong", problem=PROBLEM, solution="def double(number): return number"),
                JudgeJob(key="forged", problem=GUESS, solution=FORGERS["write a forged verdict to every descriptor"]),
            ]
        )
    assert [result.status for result in (right, wrong, forged)] == ["passed", "failed", "failed"]
    runs = [call for call in docker.calls() if call[0] == "run"]
    assert len(runs) == 3
    assert all(("--network", "none") in set(itertools.pairwise(call)) for call in runs)


def test_the_image_is_built_from_the_recipe_in_the_package(docker: Fake) -> None:
    build_image()
    assert docker.calls()[-1][:3] == ["build", "--tag", IMAGE]
    recipe = dockerfile().read_text("utf-8")
    assert "USER 65534:65534" in recipe


def test_a_real_engine_runs_the_sandbox_if_this_machine_has_one() -> None:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker here")
    try:
        box = Docker()
    except Unavailable as error:
        pytest.skip(f"docker is here and cannot be used: {error.message}")
    assert box.run("print(6 * 7)").stdout == "42\n"
    seen = escapes.observe(box)
    assert not set(seen.values()) & escapes.ESCAPED, seen

"""Programs that try to exceed the memory limit unseen, to break the keeper, or to look like an error of the sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.client.process import run
from headway.kits.sandbox import Limits, Sandbox, bubblewrap, cgroup, sandbox
from headway.kits.sandbox.cgroup import memory_parent
from headway.kits.sandbox.checks import check
from headway.kits.sandbox.launch import keeper_source, result, spec
from headway.kits.sandbox.seccomp import filter_program
from tests.kits.sandbox.test_sandbox import _running

SMALL = Limits(wall_s=10, cpu_s=4, memory_bytes=128 << 20, processes=8, disk_bytes=4 << 20)


@pytest.fixture(params=[pytest.param("process", marks=pytest.mark.slow), "bubblewrap"])
def box(request: pytest.FixtureRequest, need_tool: Callable[..., str]) -> Sandbox:
    if request.param == "bubblewrap":
        need_tool("bwrap", package="bubblewrap")
    return sandbox(request.param)


@pytest.fixture(params=["cgroup", "filter"])
def limited(request: pytest.FixtureRequest, need_tool: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Bubblewrap with a memory cgroup, and as it is where there is none."""
    need_tool("bwrap", package="bubblewrap")
    if request.param == "cgroup" and memory_parent() is None:
        pytest.skip("this machine gives us no memory cgroup")
    if request.param == "filter":
        for module in (bubblewrap, cgroup):
            monkeypatch.setattr(module, "memory_parent", lambda: None)
    return sandbox("bubblewrap")


# Six processes hold memory that none of them shows; the first one ends well when all have it.
HOLDERS = """
import mmap, os, socket, time
def hold_maps(descriptor, flags):
    kept = []
    for _ in range(100):
        m = mmap.mmap(descriptor, 1 << 20, flags)
        m.write(b"x" * (1 << 20))
        m.madvise(mmap.MADV_DONTNEED)
        kept.append(m)
    return kept
def hold_sockets():
    kept, total = [], 0
    while len(kept) < 100 and total < 60_000_000:
        pair = socket.socketpair()
        for end in pair:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10 << 20)
            try:
                while total < 60_000_000: total += end.send(b"x" * 65536)
            except OSError: pass
        kept.append(pair)
    return kept
ready, tell = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        kept = HOLD
        os.write(tell, b"x")
        time.sleep(60)
os.close(tell)
got = 0
while got < 6 and (chunk := os.read(ready, 1)): got += len(chunk)
raise SystemExit(got < 6)
"""
UNSEEN = {
    "shared maps that no process has mapped": "hold_maps(-1, mmap.MAP_SHARED)",
    "shared maps of /dev/zero": "hold_maps(os.open('/dev/zero', os.O_RDWR), mmap.MAP_SHARED)",
    "socket buffers": "hold_sockets()",
}


@pytest.mark.parametrize("way", UNSEEN)
def test_memory_that_no_process_shows_is_limited_too(limited: Sandbox, way: str) -> None:
    result = limited.run(HOLDERS.replace("HOLD", UNSEEN[way]), limits=SMALL)
    assert result.status == "failed", result


def test_ordinary_programs_run_with_either_limit(limited: Sandbox) -> None:
    source = (
        "import mmap, subprocess; mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE); subprocess.run(['true'], check=True)"
    )
    assert limited.run(source, limits=SMALL).status == "passed"


def test_the_stricter_filter_is_whole_instructions() -> None:
    for machine in ("x86_64", "aarch64"):
        assert len(filter_program(machine, counted=False)) % 8 == 0
        assert len(filter_program(machine, counted=False)) > len(filter_program(machine))


@pytest.mark.slow
def test_no_cgroup_is_left_behind(limited: Sandbox) -> None:
    limited.run("print(1)", limits=SMALL)
    parent = memory_parent()
    assert parent is None or not list(parent.glob(f"headway-{os.getpid()}-*"))


def test_doctor_says_what_limits_memory(monkeypatch: pytest.MonkeyPatch, need_tool: Callable[..., str]) -> None:
    need_tool("bwrap", package="bubblewrap")
    for parent, word in ((Path("/sys/fs/cgroup"), "counts everything"), (None, "no sockets")):
        monkeypatch.setattr(cgroup, "memory_parent", lambda parent=parent: parent)
        findings = {finding.name: finding for finding in cgroup.findings(None)}
        assert word in findings["sandbox memory"].found
        assert findings["sandbox memory"].ok is None


# -- the sandbox's own state is out of band


FAKES = {
    "exit code of SIGXCPU": "import os; os._exit(152)",
    "SIGXCPU itself": "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)",
    "the keeper's words": "import os; os.write(2, b'keeper: out of order\\n'); os._exit(125)",
    "setpriv's words": "import os; os.write(2, b'setpriv: no such thing\\n'); os._exit(127)",
    "bubblewrap's words": "import os; os.write(2, b'bwrap: execvp x\\n'); os._exit(1)",
    "a report on stdout": 'print(\'started\\n{"ended": "exit", "code": 0}\'); raise SystemExit(1)',
    "words on every descriptor": """
import os
for end in range(256):
    try: os.write(end, b'{"exit-code": 0}\\n')
    except OSError: pass
os._exit(1)
""",
}


@pytest.mark.parametrize("fake", FAKES)
def test_a_failing_program_cannot_look_like_an_error_or_a_timeout(box: Sandbox, fake: str) -> None:
    result = box.run(FAKES[fake], limits=SMALL)
    assert result.status == "failed", result


@pytest.mark.slow
def test_cpu_time_is_still_a_timeout(box: Sandbox) -> None:
    limits = Limits(wall_s=30, cpu_s=0.3, memory_bytes=128 << 20)
    assert box.run("while True: pass", limits=limits).status == "timeout"


def test_a_program_that_kills_its_keeper_has_failed(tmp_path: Path) -> None:
    """As in `docker`, and in `process` when a user starts it: keeper and program have the same user."""
    source = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    document = spec([sys.executable, "-c", source], SMALL, cwd=str(tmp_path), home=str(tmp_path))
    output = run([sys.executable, "-I", "-S", "-c", keeper_source()], json.dumps(document).encode(), timeout_s=60)
    ran, _ = result(output, SMALL, "process")
    assert (ran.status, "keeper" in ran.why) == ("failed", True), ran


@pytest.mark.parametrize("fake", ["exit code of SIGXCPU", "the keeper's words", "setpriv's words"])
@pytest.mark.slow
def test_a_check_counts_such_a_solution_as_failed(box: Sandbox, fake: str) -> None:
    wanted = {"kind": "code", "function": "double", "cases": [[[1], 2]]}
    assert check(FAKES[fake], wanted, box, SMALL).status == "failed"


# -- folders nested deeper than Python calls functions


def test_deeply_nested_folders_neither_break_the_keeper_nor_leave_a_process(box: Sandbox, tmp_path: Path) -> None:
    mark = f"mark{os.getpid()}x{tmp_path.name}"
    source = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {mark!r}], start_new_session=True)
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
print("made", flush=True)
"""
    result = box.run(source, limits=Limits(wall_s=20, cpu_s=10, memory_bytes=256 << 20, disk_bytes=64 << 20))
    assert result.status in {"passed", "failed"}, result
    assert "keeper" not in result.why
    assert not [pid for pid in _running(mark) if pid != str(os.getpid())]


def test_the_keeper_kills_everything_when_it_breaks_itself(tmp_path: Path) -> None:
    mark = f"mark{os.getpid()}x{tmp_path.name}"
    argv = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)", mark]
    document = spec(argv, SMALL, cwd=str(tmp_path), home=str(tmp_path))
    document["limits"]["wall_s"] = "not a number"  # breaks the first check of the limits
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", keeper_source()],
        input=json.dumps(document).encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert b"TypeError" in done.stderr
    assert not [pid for pid in _running(mark) if pid != str(os.getpid())]

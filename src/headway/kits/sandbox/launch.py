"""Start a keeper for one run, and read its report."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import stat
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

from headway.client import ProgramOutput, run
from headway.kits.sandbox.cgroup import memory_group
from headway.kits.sandbox.records import MIB, Limits, Result, Status, Workspace
from headway.nouns import errors

PATH = "/usr/local/bin:/usr/bin:/bin"
GRACE_S = 10.0  # a keeper that takes this much longer than the run counts as lost
_REMOVE_S = 600.0
_OWN_BYTES = 32 * MIB
_MARK = "HEADWAY_RUN"  # in the environment of every process of a run
_WHY = {
    "wall": "it ran for longer than {wall_s:g} s",
    "cpu": "it used more than {cpu_s:g} s of CPU time",
    "memory": "it used more than {memory_bytes:,} bytes of memory",
    "processes": "it had more than {processes} processes and threads",
    "disk": "it wrote more than {disk_bytes:,} bytes",
}
_START = """
import sys, types
for name, source in {sources!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""


def missing(what: str, hint: str) -> errors.Unavailable:
    """The error for a sandbox that is not available; nothing was run."""
    return errors.Unavailable(what, code="sandbox_missing", hint=hint)


def keeper_source() -> str:
    return script("tree", "keeper")


def environment(home: str) -> dict[str, str]:
    """The whole environment of a program in a sandbox."""
    python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}  # the home may be the program's own folder
    return {"PATH": PATH, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **python}


def spec(
    argv: list[str],
    limits: Limits,
    *,
    cwd: str,
    home: str,
    files: dict[str, bytes] | None = None,
    data: list[bytes] | None = None,
    stdin: str | bytes = b"",
    uid: int | None = None,
    watch: str = "",
    already: int = 0,
    own: int = 0,
    cgroup: str = "",
) -> dict[str, Any]:
    """The JSON document that a keeper reads."""

    def coded(content: bytes) -> str:
        return base64.b64encode(content).decode("ascii")

    return {
        "argv": argv,
        "cwd": cwd,
        "env": environment(home),
        "files": {name: coded(content) for name, content in (files or {}).items()},
        "data": [coded(content) for content in data or []],
        "stdin": coded(stdin.encode() if isinstance(stdin, str) else stdin),
        "uid": uid,
        "watch": watch,
        "already": already,  # bytes in the watched folder that the program did not write
        "own": own,  # processes of the sandbox that are counted with the program's
        "cgroup": cgroup,  # a folder whose limits the program joins
        "parent": 0,  # process id; a keeper with another parent exits at once; 0: any parent
        "limits": asdict(limits),
    }


def ask(document: dict[str, Any], name: str) -> tuple[Result, str]:
    """Run a keeper on this machine; returns the result, and the text written to the status descriptor."""
    limits = Limits(**document["limits"])
    mark = secrets.token_hex(8)
    with memory_group(group_bytes(limits)) as group:
        document = {**document, "parent": os.getpid(), "cgroup": "" if group is None else group.path}
        document["env"] = {**document["env"], _MARK: mark}
        output = run(
            [sys.executable, "-I", "-S", "-c", keeper_source()],
            json.dumps(document).encode(),
            timeout_s=limits.wall_s + GRACE_S,
            grace_s=GRACE_S,  # on SIGTERM it kills its process tree
            most_bytes=report_bytes(limits),
            env={"PATH": PATH, "TMPDIR": "/tmp" if document["cwd"] == "/" else document["env"]["TMPDIR"]},
        )
        if output.status:
            end_strays(mark)
        read, reported = result(output, limits, name)
        if group is not None and group.ran_out and read.status != "error":
            read = replace(read, status="failed", exit_code=None, why=why_ended("memory", limits))
    return read, reported


def end_strays(mark: str) -> None:
    """End what a keeper left that was killed: a sandbox that was just starting may not have noticed (Linux)."""
    wanted = f"{_MARK}={mark}".encode()
    for _ in range(200):
        strays = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or belongs to somebody else
                if wanted in (process / "environ").read_bytes().split(b"\0"):
                    strays.append(int(process.name))
        if not strays:
            return
        for pid in strays:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def group_bytes(limits: Limits) -> int:
    """The limit of a run's cgroup, which also counts its in-memory files, and the sandbox's own processes."""
    return limits.memory_bytes + limits.disk_bytes + _OWN_BYTES


def report_bytes(limits: Limits) -> int:
    """An upper bound for a keeper's report: both outputs in base64, and the status text."""
    return 3 * limits.output_bytes + MIB


def result(output: ProgramOutput, limits: Limits, name: str) -> tuple[Result, str]:
    """Read a keeper's report. If it did not start the program, the status is `error`: this says nothing about it.

    A keeper that vanished after that was killed by the program, or together with it: the program failed.
    """
    started, _, body = output.stdout.partition(b"\n")
    try:
        report = json.loads(body)
    except ValueError:
        return _lost(output, started == b"started", name), ""
    stderr = base64.b64decode(report["stderr"]).decode("utf-8", "replace")
    status, code, why = _verdict(report, limits)
    read = Result(
        status=status,
        exit_code=code,
        stdout=base64.b64decode(report["stdout"]).decode("utf-8", "replace"),
        stderr=stderr,
        truncated=report["truncated"],
        seconds=report["seconds"],
        cpu_s=report["cpu_s"],
        peak_memory_bytes=report["peak"],
        why=why,
        sandbox=name,
    )
    return read, report["status"]


def _lost(output: ProgramOutput, started: bool, name: str) -> Result:
    """The result of a run whose keeper sent no report."""
    complaint = output.stderr.decode("utf-8", "replace").strip()[-400:] or "it was killed"
    if output.timed_out:
        return Result(status="timeout", why="its keeper did not end it in time", sandbox=name)
    if started:
        return Result(status="failed", why=f"its keeper ended while it ran: {complaint}", sandbox=name)
    return Result(status="error", why=f"the keeper sent no report: {complaint}", sandbox=name)


def _verdict(report: dict[str, Any], limits: Limits) -> tuple[Status, int | None, str]:
    """Status, exit code and reason of a run that a keeper saw end; nothing that the program wrote takes part."""
    ended, code = report["ended"], report["code"]
    if report["not_started"]:
        return "error", None, report["not_started"]
    if ended != "exit":
        return "timeout" if ended in {"wall", "cpu"} else "failed", None, why_ended(ended, limits)
    if not code:
        return "passed" if code == 0 else "failed", code, ""
    if code == -signal.SIGXCPU and report["cpu_s"] >= limits.cpu_s:  # the kernel noticed before the keeper
        return "timeout", code, why_ended("cpu", limits)
    return "failed", code, f"it ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def why_ended(ended: str, limits: Limits) -> str:
    """Words for the limit that ended a run."""
    return _WHY[ended].format_map(asdict(limits))


def free_uid() -> int | None:
    """An unused user id, so that the kernel counts only the processes of this run.

    Only root can change its user; for other users this is None, and the program runs as the caller.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    most = 0xFFFF_FFFE
    mapped = Path("/proc/self/uid_map")
    if mapped.exists():  # in a container, "root" may own only a few thousand user ids
        for line in mapped.read_text("ascii").splitlines():
            inside, _, count = (int(number) for number in line.split())
            if inside == 0:
                most = min(most, count - 1)
    if most >= 2_000_000_000:
        return 1_900_000_000 + secrets.randbelow(100_000_000)  # above the ranges that systems and containers assign
    if most > 1000:
        return most - secrets.randbelow(most // 2)
    return None


def lend(workspace: Workspace, uid: int | None) -> int:
    """Give the folder to the user that the program runs as; returns the bytes in it. Links are not followed."""
    total = 0
    for folder, _, files in os.walk(workspace.path):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            total += path.lstat().st_blocks * 512
            if uid is not None:
                os.chown(path, uid, uid, follow_symlinks=False)
    return total


def remove_tree(folder: Path) -> None:
    """Remove a folder that a program wrote: nested too deeply for Python, or without permissions. Follows no links."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for command in (("rm", "-rf"), ("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        run([*command, "--", str(folder)], timeout_s=_REMOVE_S, env={"PATH": PATH})
        if not folder.exists():
            return


def interpreter(*, for_everybody: bool) -> str:
    """A Python for the program: ours (outside any virtual environment), or the system's if ours is private."""
    ours = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    if not for_everybody or _reachable(Path(ours)):
        return ours
    system = which("python3", path=PATH)
    if system is None or not _reachable(Path(system).resolve()):
        raise missing(
            f"The interpreter {ours!r} is in a folder that only its owner can enter, and no other is installed.",
            "Install the package python3, or run as a non-root user.",
        )
    return system


def _reachable(path: Path) -> bool:
    return all(place.stat().st_mode & stat.S_IXOTH for place in (path, *path.parents))


def script(*names: str, **more: str) -> str:
    """The source that loads the modules in `more` and the named ones of this kit, and calls `main` of the last.

    Each is registered under its full name, so that their imports of one another work.
    """
    return _START.format(sources=[*more.items(), *((f"{__package__}.{name}", _source(name)) for name in names)])


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")

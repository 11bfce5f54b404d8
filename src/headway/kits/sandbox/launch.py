"""Start a keeper for one run, and read its report."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import stat
import sys
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

from headway.client.process import ProgramOutput, run
from headway.kits.sandbox.records import MIB, Limits, Result, Status, Workspace
from headway.nouns.errors import Unavailable

__all__ = [
    "GRACE_S", "PATH", "ask", "free_uid", "interpreter", "keeper_source", "lend", "missing", "remove_tree",
    "report_bytes", "result", "spec",
]  # fmt: skip

PATH = "/usr/local/bin:/usr/bin:/bin"
GRACE_S = 10.0  # a keeper that takes this much longer than the run counts as lost
_REMOVE_S = 600.0
_WHY = {
    "wall": "it ran for longer than {wall_s:g} s",
    "cpu": "it used more than {cpu_s:g} s of CPU time",
    "memory": "it used more than {memory_bytes:,} bytes of memory",
    "processes": "it had more than {processes} processes and threads",
    "disk": "it wrote more than {disk_bytes:,} bytes",
}


def missing(what: str, hint: str) -> Unavailable:
    """The error for a sandbox that is not available; nothing was run."""
    return Unavailable(what, code="sandbox_missing", hint=hint)


def keeper_source() -> str:
    return Path(__file__).with_name("keeper.py").read_text("utf-8")


def environment(home: str) -> dict[str, str]:
    """The whole environment of a program in a sandbox."""
    return {"PATH": PATH, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


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
        "parent": 0,  # process id; a keeper with another parent exits at once; 0: any parent
        "limits": asdict(limits),
    }


def ask(document: dict[str, Any], name: str) -> tuple[Result, str]:
    """Run a keeper on this machine; returns the result, and the text written to the status descriptor."""
    limits = Limits(**document["limits"])
    output = run(
        [sys.executable, "-I", "-S", "-c", keeper_source()],
        json.dumps({**document, "parent": os.getpid()}).encode(),
        timeout_s=limits.wall_s + GRACE_S,
        grace_s=GRACE_S,  # on SIGTERM it kills its process tree
        most_bytes=report_bytes(limits),
        env={"PATH": PATH, "TMPDIR": "/tmp" if document["cwd"] == "/" else document["env"]["TMPDIR"]},
    )
    return result(output, limits, name)


def report_bytes(limits: Limits) -> int:
    """An upper bound for a keeper's report: both outputs in base64, and the status text."""
    return 3 * limits.output_bytes + MIB


def result(output: ProgramOutput, limits: Limits, name: str) -> tuple[Result, str]:
    """Read a keeper's report. A lost keeper has the status `error`, which says nothing about the program."""
    try:
        report = json.loads(output.stdout)
    except ValueError:
        complaint = output.stderr.decode("utf-8", "replace").strip()[-400:]
        lost = Result(status="error", why=f"the keeper sent no report: {complaint or 'it was killed'}", sandbox=name)
        return lost, ""
    stderr = base64.b64decode(report["stderr"]).decode("utf-8", "replace")
    status, code, why = _verdict(report["ended"], report["code"], stderr, limits)
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


def _verdict(ended: str, code: int | None, stderr: str, limits: Limits) -> tuple[Status, int | None, str]:
    """Status, exit code and reason of a run that a keeper saw end."""
    if ended != "exit":
        return "timeout" if ended in {"wall", "cpu"} else "failed", None, _why(ended, limits)
    if not code:
        return "passed" if code == 0 else "failed", code, ""
    if code == 125 and stderr.startswith("keeper:"):
        return "error", None, stderr.strip()
    if code == -signal.SIGXCPU:  # the kernel noticed before the keeper
        return "timeout", code, _why("cpu", limits)
    return "failed", code, f"it ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def _why(ended: str, limits: Limits) -> str:
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

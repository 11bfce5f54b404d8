"""Starts a keeper for one run and reads its report."""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

from headway.nouns.errors import Unavailable
from headway.worlds.sandbox.records import Limits, Result, Status

__all__ = ["GRACE_S", "PATH", "ask", "free_uid", "interpreter", "keeper_source", "missing", "result", "spec"]

PATH = "/usr/local/bin:/usr/bin:/bin"
GRACE_S = 10.0  # what a keeper may take on top of the run itself before it counts as lost
_WHY = {
    "wall": "it ran for longer than {wall_s:g} s",
    "cpu": "it used more than {cpu_s:g} s of CPU time",
    "memory": "it used more than {memory_bytes:,} bytes of memory",
    "processes": "it had more than {processes} processes and threads",
    "disk": "it wrote more than {disk_bytes:,} bytes",
}


def missing(what: str, hint: str) -> Unavailable:
    """The sandbox is not there: nothing was run, here or elsewhere."""
    return Unavailable(what, code="sandbox_missing", hint=hint)


def keeper_source() -> str:
    return Path(__file__).with_name("keeper.py").read_text("utf-8")


def environment(home: str) -> dict[str, str]:
    """All that a program in a sandbox finds in its environment."""
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
    own: int = 0,
) -> dict[str, Any]:
    """The document that a keeper reads."""

    def coded(content: bytes) -> str:
        return base64.b64encode(content).decode("ascii")

    return {
        "argv": argv,
        "cwd": cwd,
        "env": environment(home),
        "files": {name: coded(each) for name, each in (files or {}).items()},
        "data": [coded(each) for each in data or []],
        "stdin": coded(stdin.encode() if isinstance(stdin, str) else stdin),
        "uid": uid,
        "watch": watch,
        "own": own,  # processes of the sandbox itself that the program's count contains
        "limits": asdict(limits),
    }


def ask(document: dict[str, Any], name: str) -> tuple[Result, str]:
    """Runs a keeper on this machine and waits for it; also what the program reported on its status descriptor."""
    limits = Limits(**document["limits"])
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", keeper_source()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": PATH, "TMPDIR": document["env"]["TMPDIR"] if document["watch"] else "/tmp"},
        start_new_session=True,
    ) as keeper:
        try:
            answer, complaint = keeper.communicate(json.dumps(document).encode(), limits.wall_s + GRACE_S)
        except subprocess.TimeoutExpired:
            keeper.terminate()  # it kills what it kept
            try:
                answer, complaint = keeper.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                keeper.kill()
                answer, complaint = keeper.communicate()
        except BaseException:  # Ctrl-C, say: the program must not outlive it
            keeper.terminate()
            raise
    return result(answer, complaint, limits, name)


def result(answer: bytes, complaint: bytes, limits: Limits, name: str) -> tuple[Result, str]:
    """What a keeper's report means; a keeper that was lost is an error, never a verdict on the program."""
    try:
        report = json.loads(answer)
    except ValueError:
        said = complaint.decode("utf-8", "replace").strip()[-400:]
        lost = Result(status="error", why=f"the keeper gave no report: {said or 'it was killed'}", sandbox=name)
        return lost, ""
    ended, code = report["ended"], report["code"]
    stderr = base64.b64decode(report["stderr"]).decode("utf-8", "replace")
    why = _WHY.get(ended, "").format_map(asdict(limits))
    status: Status
    if ended == "exit":
        status = "passed" if code == 0 else "failed"
        if code is not None and code != 0:
            why = f"it ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
    else:
        status = "timeout" if ended in {"wall", "cpu"} else "failed"
        code = None
    if code == 125 and stderr.startswith("keeper:"):
        status, why, code = "error", stderr.strip(), None
    elif code == -24:  # SIGXCPU: the kernel saw it before we did
        status, why = "timeout", _WHY["cpu"].format_map(asdict(limits))
    found = Result(
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
    return found, report["status"]


def free_uid() -> int | None:
    """A user that nobody is and that this run has to itself, so that the kernel counts its processes alone.

    Only root can become somebody else; for anybody else it is None, and the program runs as the caller.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    most = 0xFFFF_FFFE
    mapped = Path("/proc/self/uid_map")
    if mapped.exists():  # in a container, "root" may own a few thousand users only
        for line in mapped.read_text("ascii").splitlines():
            inside, _, count = (int(each) for each in line.split())
            if inside == 0:
                most = min(most, count - 1)
    if most >= 2_000_000_000:
        return 1_900_000_000 + secrets.randbelow(100_000_000)  # beyond what systems and containers hand out
    if most > 1000:
        return most - secrets.randbelow(most // 2)
    return None


def interpreter(*, for_everybody: bool) -> str:
    """A Python for the program: ours (the one behind a virtual environment), or the system's where ours is private."""
    ours = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    if not for_everybody or _reachable(Path(ours)):
        return ours
    found = which("python3", path=PATH)
    if found is None or not _reachable(Path(found).resolve()):
        raise missing(
            f"The interpreter {ours!r} is in a folder that only its owner can enter, and there is no other.",
            "Install the package python3, or run as a user that is not root.",
        )
    return found


def _reachable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXOTH) and all(each.stat().st_mode & stat.S_IXOTH for each in path.parents)

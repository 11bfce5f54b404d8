"""`bubblewrap`: separate namespaces, a read-only system, no network."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from shutil import which

from headway.kits.sandbox.cgroup import memory_parent
from headway.kits.sandbox.launch import PATH, ask, free_uid, interpreter, lend, missing, spec, why_ended
from headway.kits.sandbox.records import MIB, Command, Files, Limits, Result, Workspace, checked_files
from headway.kits.sandbox.seccomp import filter_program

BOX = "/box"  # the program's folder, in memory
WORK = "/work"  # a workspace, if one is lent
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_HINT = "Install the package bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)."


class Bubblewrap:
    """A fresh mount, pid, network, ipc, uts and cgroup namespace; the system's programs read-only and nothing else.

        Bubblewrap().run("open('x', 'w').write('in memory, deleted after the run')")

    The program sees /usr, the interpreter, a private /proc and /dev, and an empty in-memory folder of `disk_bytes`;
    no home, no project, no socket, no environment. A workspace is at /work; nothing else is written to a disk. Started
    by root, it runs as an unused user id; started by any other user, it runs in a user namespace. It gets no new
    privileges, no capabilities, no further namespaces, and a filter on system calls (seccomp.py). The whole process
    tree lives in one pid namespace and dies with it.

    Not covered: a bug in the kernel, which is shared; without a memory cgroup (`cgroup.py`), memory is limited per
    process by the kernel and for the whole tree by checks every few milliseconds, so a tree can exceed it briefly, and
    very many empty files count nowhere; side channels through the processor's caches. Files under /usr can be read.
    """

    name = "bubblewrap"

    def __init__(self, *, readable: tuple[Path, ...] = ()) -> None:
        """`readable`: further paths that the program may read, under the same names."""
        self._readable = readable
        self._program = _program()

    def run(
        self,
        command: Command,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        stdin: str | bytes = b"",
        workspace: Workspace | None = None,
    ) -> Result:
        limits = limits or Limits()
        python = interpreter(for_everybody=False)
        argv = [python, "-I", "-c", command] if isinstance(command, str) else [*command]
        if "/" not in argv[0] and which(argv[0], path=PATH) is None:
            return Result(status="error", why=f"there is no program {argv[0]!r}", sandbox=self.name)
        uid = free_uid()
        data: list[bytes] = []
        wrapped = [self._program, *_namespaces(uid), *_root(python, self._readable)]
        wrapped += _folders(limits, self._readable)
        if workspace is not None:
            wrapped += _lent(workspace)
        made: set[str] = set()
        for name, content in checked_files(files).items():
            for parent in reversed(PurePosixPath(name).parents[:-1]):
                if str(parent) not in made:
                    made.add(str(parent))
                    wrapped += ["--perms", "0777", "--dir", f"{BOX}/{parent}"]
            wrapped += ["--perms", "0666", "--file", f"{{fd:{len(data)}}}", f"{BOX}/{name}"]
            data.append(content)
        if filtered := filter_program(counted=memory_parent() is not None):
            wrapped += ["--seccomp", f"{{fd:{len(data)}}}"]
            data.append(filtered)
        wrapped += ["--remount-ro", "/", "--chdir", WORK if workspace else BOX]
        wrapped += ["--json-status-fd", "{status}", "--", *_become(uid), *argv]
        # bwrap and the first process of its pid namespace belong to us, not to the program.
        document = spec(wrapped, limits, cwd="/", home=BOX, data=data, stdin=stdin, own=2)
        if workspace is not None:
            document |= {"watch": str(workspace.path), "already": lend(workspace, uid)}
        return _read(*ask(document, self.name), limits)

    def warm_command(self, limits: Limits, arguments: list[str], uid: int | None) -> list[str]:
        """The command that starts our own server (`server.py`) inside; it restricts the programs that it forks.

        The server alone keeps CAP_SYS_ADMIN, to give each program namespaces of its own (and as root CAP_SETUID,
        CAP_SETGID and CAP_KILL, to give it another user id and to end it). It runs no code but ours.
        """
        python = interpreter(for_everybody=False)
        command = [self._program, *_namespaces(uid, serve=True), *_root(python, self._readable)]
        command += [*_folders(limits, self._readable), "--remount-ro", BOX, "--remount-ro", "/dev/shm"]
        command += ["--remount-ro", "/", "--chdir", BOX, "--", python, *arguments]
        return command


def _read(result: Result, reported: str, limits: Limits) -> Result:
    """bubblewrap reports an exit code only if it could start the program; 128 + n means signal n."""
    code = result.exit_code
    if code is not None and '"exit-code"' not in reported:
        complaint = result.stderr.strip().splitlines() or [result.why]
        return replace(result, status="error", exit_code=None, why=complaint[0])
    if code is not None and 128 < code < 128 + 65:
        if code - 128 == signal.SIGXCPU and result.cpu_s >= limits.cpu_s:
            return replace(result, status="timeout", exit_code=None, why=why_ended("cpu", limits))
        return replace(result, exit_code=128 - code, why=f"it ended by signal {code - 128}")
    return result


def _namespaces(uid: int | None, *, serve: bool = False) -> list[str]:
    common = ["--die-with-parent", "--new-session", "--hostname", "box", "--cap-drop", "ALL"]
    if serve:
        common += ["--cap-add", "CAP_SYS_ADMIN"]
    if uid is None:
        more = () if serve else ("--disable-userns",)
        return ["--unshare-all", "--unshare-user", *more, "--uid", "1000", "--gid", "1000", *common]
    # As root there is no need for a user namespace, and a real user other than root is what RLIMIT_NPROC counts.
    names = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    kill = ("--cap-add", "CAP_KILL") if serve else ()
    return [*names, *common, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", *kill]


def _become(uid: int | None) -> list[str]:
    if uid is None:
        return []
    who = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return [_setpriv(), *who, "--inh-caps=-all", "--no-new-privs", "--"]


@cache
def _setpriv() -> str:
    program = which("setpriv", path=PATH)
    if program is None:
        raise missing("The sandbox needs 'setpriv' if root runs it.", "Install the package util-linux.")
    return program


def _root(python: str, readable: tuple[Path, ...]) -> list[str]:
    """The system's programs, the interpreter, and the files that the dynamic linker reads."""
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    prefix = Path(sys.base_prefix).resolve()
    for path in (prefix, *readable) if Path(python).is_relative_to(prefix) else readable:
        if not path.is_relative_to("/usr"):
            for parent in [*reversed(path.parents)][1:]:  # the host's may be private; these are empty otherwise
                argv += ["--perms", "0755", "--dir", str(parent)]
            argv += ["--ro-bind", str(path), str(path)]
    return argv


def _folders(limits: Limits, readable: tuple[Path, ...] = ()) -> list[str]:
    """Everything writable is in memory with a size limit; / and /dev themselves are read-only."""
    taken = any(path.is_relative_to("/tmp") for path in readable)  # then /tmp is the way to it, and read-only
    # A shared map of /dev/zero keeps memory that no process has mapped: only a cgroup counts it.
    no_zero = () if memory_parent() else ("--dev-bind", "/dev/null", "/dev/zero")
    return [
        *(
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            *no_zero,
            "--perms",
            "0777",
            "--size",
            str(4 * MIB),
            "--tmpfs",
            "/dev/shm",
        ),
        *("--remount-ro", "/dev", "--perms", "0777", "--size", str(limits.disk_bytes), "--tmpfs", BOX),
        *(() if taken else ("--symlink", BOX.lstrip("/"), "/tmp")),
    ]


def _lent(workspace: Workspace) -> list[str]:
    """The folder, writable; a mount over each read-only path, which can be neither changed, moved nor removed."""
    argv = ["--bind", str(workspace.path), WORK]
    for name in workspace.read_only:
        argv += ["--ro-bind", str(workspace.path / name), f"{WORK}/{name}"]
    return argv


@cache
def _program() -> str:
    """The path of bwrap, if it is installed and this user may use it; runs it once to find out."""
    program = which("bwrap")
    if program is None:
        raise missing("The sandbox 'bubblewrap' needs the program 'bwrap', which is not on PATH.", _HINT)
    uid = free_uid()
    argv = [program, *_namespaces(uid), *_root("", ()), *_folders(Limits()), "--", *_become(uid), "true"]
    trial, _ = ask(spec(argv, Limits(), cwd="/", home=BOX, own=2), "bubblewrap")
    if trial.status != "passed":
        complaint = trial.stderr.strip().splitlines() or [trial.why]
        raise missing(
            f"The sandbox 'bubblewrap' does not start here: {complaint[0]}",
            "Namespaces may be disabled for this user or in this container. Use the sandbox 'docker' instead.",
        )
    return program

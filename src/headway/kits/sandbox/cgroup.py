"""A memory cgroup for a run, where this machine lets us make one; and what `headway doctor` says of sandboxes.

    with memory_group(256 * MIB) as group:
        start(["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', group.path, …])
        group.ran_out                                          # whether the kernel ended a process for lack of memory

A cgroup counts everything that the run holds: memory of processes, shared maps that no process has mapped, in-memory
files, socket buffers. Root can make one nearly everywhere, a user where systemd or a container delegates the memory
controller. Where there is none, `memory_group` gives None, and the system call filter refuses what cannot be counted.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import which

from headway.kits.sandbox.records import MIB
from headway.nouns import Finding

JOIN = ("/bin/sh", "-c", 'echo 0 > "$0"/cgroup.procs && exec "$@"')  # then the group's path and the program
_number = itertools.count()
_REMOVE_S = 5.0


class MemoryGroup:
    """A cgroup with a limit on memory. Remove it when its last process has ended."""

    def __init__(self, parent: Path, limit_bytes: int) -> None:
        self._path = parent / f"headway-{os.getpid()}-{next(_number)}"
        self._path.mkdir()
        self._second = (self._path / "memory.max").exists()  # of the two versions of cgroups
        try:
            self._write("memory.max" if self._second else "memory.limit_in_bytes", limit_bytes)
        except OSError:
            self._path.rmdir()
            raise
        with suppress(OSError):  # a kernel without swap has no such file
            self._write("memory.swap.max" if self._second else "memory.memsw.limit_in_bytes", self._swap(limit_bytes))

    def _swap(self, limit_bytes: int) -> int:
        return 0 if self._second else limit_bytes  # the first version counts memory and swap together

    def _write(self, name: str, value: int) -> None:
        (self._path / name).write_text(str(value), "ascii")

    @property
    def path(self) -> str:
        return str(self._path)

    @property
    def ran_out(self) -> int:
        """How many processes the kernel has ended because the group was full."""
        with suppress(OSError):
            name = "memory.events" if self._second else "memory.oom_control"
            for line in (self._path / name).read_text("ascii").splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def remove(self) -> None:
        until = time.monotonic() + _REMOVE_S
        while self._path.exists() and time.monotonic() < until:
            with suppress(OSError):  # busy: the kernel has not quite finished with its last process
                self._path.rmdir()
                return
            time.sleep(0.002)


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup | None]:
    """A new group, removed afterwards; None where this machine gives us none."""
    parent = memory_parent()
    group = None if parent is None else MemoryGroup(parent, limit_bytes)
    try:
        yield group
    finally:
        if group is not None:
            group.remove()


@cache
def memory_parent() -> Path | None:
    """The folder in which we can make memory cgroups that a process of ours can join; None if there is none."""
    for folder in _candidates():
        _remove_stale(folder)
        with suppress(OSError):
            group = MemoryGroup(folder, 64 * MIB)
            try:
                if subprocess.run([*JOIN, group.path, "/bin/true"], capture_output=True, check=False).returncode == 0:
                    return folder
            finally:
                group.remove()
    return None


def _candidates() -> Iterator[Path]:
    """Our own memory cgroup and those above it, as far as they are visible here."""
    mounts = [line.split() for line in _lines("/proc/self/mounts")]
    for line in _lines("/proc/self/cgroup"):
        _, controllers, own = line.split(":", 2)
        for _, top, kind, options, *_ in mounts:
            second = kind == "cgroup2" and not controllers
            first = kind == "cgroup" and "memory" in options.split(",") and "memory" in controllers.split(",")
            if second or first:
                place = Path(top, own.strip().lstrip("/"))
                yield from (path for path in (place, *place.parents) if path.is_relative_to(top) and path.is_dir())


def _remove_stale(folder: Path) -> None:
    """Remove the groups of processes that were killed."""
    for path in folder.glob("headway-*-*"):
        with suppress(OSError, ValueError):
            if not Path("/proc", str(int(path.name.split("-")[1]))).exists():
                path.rmdir()


def _lines(path: str) -> list[str]:
    with suppress(OSError):
        return Path(path).read_text("utf-8").splitlines()
    return []


def findings(_settings: object) -> Iterator[Finding]:
    """For `headway doctor`: which sandboxes there are, and what limits their memory. Nothing is started."""
    programs = [name for name, program in (("docker", "docker"), ("bubblewrap", "bwrap")) if which(program)]
    yield Finding(
        name="sandbox",
        ok=None,
        found=f"installed: {', '.join(programs)}" if programs else "none is installed; code of others is not run",
        cure="" if programs else "apt install bubblewrap",
    )
    if "bubblewrap" not in programs:
        return
    if memory_parent() is not None:
        yield Finding(name="sandbox memory", ok=None, found="a memory cgroup counts everything that a run holds")
    else:
        yield Finding(
            name="sandbox memory",
            ok=None,
            found="no memory cgroup: memory is checked every few milliseconds; under bubblewrap, code gets no "
            "sockets and no shared anonymous maps, which such checks do not see",
            cure="Run as root, or where the memory controller of cgroups is delegated to you.",
        )

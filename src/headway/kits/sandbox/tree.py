"""Measure, limit and kill process trees. Runs inside sandboxes too: standard library only."""

import contextlib
import errno
import os
import resource
import signal
import sys
import time
from typing import Any

Document = dict[str, Any]
LINUX = sys.platform == "linux"
MAXRSS = 1024 if LINUX else 1  # bytes
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def read(path: str) -> bytes:
    """A file of /proc; empty if its process has ended."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
        return file.read()
    return b""


def names(folder: str) -> "list[str]":
    """The entries of a folder of /proc; empty if its process has ended."""
    with contextlib.suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208
    return []


def descendants(root: int = 0) -> "list[int]":
    """All descendants of a process (of this one by default); parents before their children."""
    pids, waiting = [], [root or os.getpid()]
    while waiting:
        pid = waiting.pop()
        for task in names(f"/proc/{pid}/task"):
            children = [int(child) for child in read(f"/proc/{pid}/task/{task}/children").split()]
            pids += children
            waiting += children
    return pids


def usage(pids: "list[int]") -> "tuple[float, int, int]":
    """CPU seconds, resident bytes and tasks of living processes."""
    cpu, resident, tasks = 0.0, 0, 0
    for pid in pids:
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if not fields:
            continue
        cpu += sum(int(field) for field in fields[11:15]) / TICKS
        if fields[0] != b"Z":
            tasks += int(fields[17])
            resident += int(fields[21]) * PAGE
    return cpu, resident, tasks


def proportional(pids: "list[int]") -> int:
    """Bytes of memory with shared pages counted once: exact, but slower than the sum of resident bytes."""
    total = 0
    for pid in pids:
        sizes = [line.split()[1] for line in read(f"/proc/{pid}/smaps_rollup").splitlines() if line[:4] == b"Pss:"]
        total += int(sizes[0]) * 1024 if sizes else usage([pid])[1]
    return total


def folder_bytes(folder: str) -> float:
    """Bytes on disk; infinite if folders are nested deeper than a path can name, where nothing could be counted."""
    total, waiting = 0, [folder]  # a loop: a program can nest folders deeper than Python can call functions
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    waiting += [entry.path] if entry.is_dir(follow_symlinks=False) else []
        except OSError as error:  # otherwise it was removed while we looked
            if error.errno == errno.ENAMETOOLONG:
                return float("inf")
    return total


def user_tasks(uid: int) -> int:
    """The number of tasks this user already has: the kernel counts them all against RLIMIT_NPROC."""
    total = 0
    for pid in filter(str.isdigit, names("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:  # noqa: PTH116
                total += len(names(f"/proc/{pid}/task"))
    return total


def limit_ourselves(limits: Document, uid: "int | None", own: int) -> None:
    """Set the limits in the child, before exec."""

    def lower(what: int, value: int, hard: int = 0) -> None:
        most = resource.getrlimit(what)[1]
        hard = max(value, hard)
        if most != resource.RLIM_INFINITY:
            value, hard = min(value, most), min(hard, most)
        resource.setrlimit(what, (value, hard))

    cpu = int(limits["cpu_s"]) + 1
    lower(resource.RLIMIT_CPU, cpu, cpu + 1)
    lower(resource.RLIMIT_FSIZE, limits["disk_bytes"])
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_NOFILE, 256)
    if LINUX:
        # Address space is not memory: an interpreter reserves more than it touches. The sum is watched as well.
        lower(resource.RLIMIT_AS, 2 * limits["memory_bytes"])
        lower(resource.RLIMIT_NPROC, limits["processes"] + own + limits["tasks_before"])
        lower(resource.RLIMIT_MSGQUEUE, 0)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def kill_all(pid: int, reaped: bool) -> int:
    """Kill the whole process tree, even if it keeps forking; the most memory that one of its processes had."""
    peak = 0
    for _ in range(2000):
        if pid > 0 and (not reaped or not LINUX):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)  # atomic: no process of the group can fork past it
        for descendant in descendants():
            with contextlib.suppress(OSError):
                os.kill(descendant, signal.SIGKILL)
        while True:
            try:
                done, _, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return peak
            if done == 0:
                break
            reaped = reaped or done == pid
            peak = max(peak, used.ru_maxrss * MAXRSS)
        time.sleep(0.001)
    return peak


class TreeUsage:
    """Measures a process tree and compares it with the limits."""

    def __init__(self, spec: Document) -> None:
        self.peak, self.cpu = 0, 0.0
        self.started = time.monotonic()
        self._before = cpu_of_children()
        self._limits = spec["limits"]
        self._exact = spec.get("exact", False)  # the processes share most of their pages
        self._tasks = spec["limits"]["processes"] + spec["own"]
        self._folder: str = spec["watch"]
        self._disk, self._disk_at = spec["limits"]["disk_bytes"] + spec["already"], 0.0

    def exceeded(self, pid: int) -> str:
        """The name of the limit that the tree exceeds; empty if none."""
        limits = self._limits
        pids = descendants() if LINUX else [pid]
        cpu, resident, tasks = usage(pids) if LINUX else (0.0, 0, 1)
        if resident > limits["memory_bytes"] or self._exact:
            resident = proportional(pids)
        self._note(cpu, resident)
        if time.monotonic() - self.started > limits["wall_s"]:
            return "wall"
        if self.cpu > limits["cpu_s"]:
            return "cpu"
        if resident > limits["memory_bytes"]:
            return "memory"
        if tasks > self._tasks:
            return "processes"
        return "disk" if time.monotonic() > self._disk_at and self.disk_exceeded() else ""

    def disk_exceeded(self) -> bool:
        """Whether the folder is too large. Measuring may take at most a tenth of the time."""
        before = time.monotonic()
        total = folder_bytes(self._folder) if self._folder else 0
        self._disk_at = before + max(0.02, 10 * (time.monotonic() - before))
        return bool(total > self._disk)

    def settle(self, peak: int) -> None:
        """Read the final sums from the kernel, after every process has ended; `peak` of those that were killed."""
        self._note(0.0, peak)

    def _note(self, cpu: float, resident: int) -> None:
        self.cpu = max(self.cpu, cpu + cpu_of_children() - self._before)
        self.peak = max(self.peak, resident)


def cpu_of_children() -> float:
    """CPU seconds of all processes that this one has reaped."""
    done = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.ru_utime + done.ru_stime

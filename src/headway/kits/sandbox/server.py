"""Runs many pairs of programs after one start: a solution and its tests. Standard library only, with `tree.py`.

It is started inside a sandbox. The module `pair`, loaded before this one, gives the functions `solution` and `tests`,
which get descriptors. Every pair is forked from here, so it starts in a millisecond and with what `pair` has imported:

    warm    over a socket: limits and three descriptors (solution's input, tests' input, verdict) → a report
    once    one pair; both inputs come over stdin as {"limits", "solution", "tests"}; the report has the "verdict"

This process never holds what a pair is about, because every later solution is a copy of it: inputs and verdicts travel
over descriptors that it passes on (warm), or are read after both were forked (once). What a pair starts is dead before
the next one begins. With `namespaces`, a solution has its own pid, mount and ipc namespace: it sees no other process,
not even this one, and the kernel ends everything in the namespace with its first process. Tests that are code have
their own pid and ipc namespace.
"""

import base64
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time

from headway.kits.sandbox.tree import (
    LINUX,
    MAXRSS,
    Document,
    TreeUsage,
    descendants,
    kill_all,
    limit_ourselves,
    prctl,
)  # fmt: skip

CHECK_S, SLOW_CHECK_S = 0.01, 0.05
NEW_PID, NEW_NS, NEW_IPC = 0x2000_0000, 0x0002_0000, 0x0800_0000
NOSUID, NODEV, NOEXEC, REC, PRIVATE = 2, 4, 8, 0x4000, 0x4_0000
VERDICT_BYTES = 65_536
FIRST_FREE = 3  # descriptor
libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """A function of the C library that returns 0, or an OSError."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class FilterProgram(ctypes.Structure):
    """A filter for system calls as the kernel reads it."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict(settings: Document, limits: Document, role: str) -> None:
    """Give up everything that a program must not have; the last thing that our own code does in it."""
    uid = settings["uid"]
    if uid is not None and role == "tests":
        uid += 1
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")  # where memory runs out, the kernel ends this process and not the server
    limit_ourselves({**limits, "tasks_before": settings["tasks_before"]}, uid, settings["own"])
    if LINUX:
        # In a user namespace nothing else takes the server's capabilities away.
        call("capset", (ctypes.c_uint32 * 2)(0x2008_0522, 0), (ctypes.c_uint32 * 6)())
        prctl(4, int(role == "solution"))  # PR_SET_DUMPABLE: no other process can read or change that of the tests
        prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    if settings["filter"]:
        code = base64.b64decode(settings["filter"])
        call("prctl", 22, 2, ctypes.byref(FilterProgram(len(code) // 8, code)), 0, 0)  # PR_SET_SECCOMP


def keep_only(descriptors: "list[int]") -> "list[int]":
    """Close everything else, and number these from 3; stdin, stdout and stderr are /dev/null."""
    high = [os.dup(end) for end in descriptors]
    while high and min(high) < FIRST_FREE + len(high):
        high = [os.dup(end) for end in high]
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(FIRST_FREE):
        os.dup2(null, number)
    for place, end in enumerate(high):
        os.dup2(end, FIRST_FREE + place)
    os.closerange(FIRST_FREE + len(high), 65_536)
    return [FIRST_FREE + place for place in range(len(high))]


def clone_apart(*, mounts: bool) -> int:
    """Like fork, and the child is process 1 of its own pid and ipc namespace; with `mounts`, also a mount namespace."""
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    flags = NEW_PID | NEW_IPC | (NEW_NS if mounts else 0) | signal.SIGCHLD
    pid = int(libc.syscall(number, flags, 0, 0, 0, 0))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def mount_apart(limits: Document) -> None:
    """An empty writable folder, and a /proc that shows only this namespace."""
    call("mount", None, b"/", None, REC | PRIVATE, None)
    size = f"size={limits['disk_bytes']},mode=0777".encode()
    call("mount", b"tmpfs", b"/box", b"tmpfs", NOSUID | NODEV, size)
    call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", NOSUID | NODEV, b"size=4194304,mode=0777")
    call("mount", b"proc", b"/proc", b"proc", NOSUID | NODEV | NOEXEC, None)


def fork_program(settings: Document, limits: Document, role: str, ends: "list[int]", *, apart: bool) -> int:
    """Start one program of a pair; returns its process id. When process 1 of a namespace ends, all in it end."""
    alone = role == "solution"
    pid = clone_apart(mounts=alone) if apart else os.fork()
    if pid:
        return pid
    try:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if apart and alone:
            mount_apart(limits)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        ends = keep_only(ends)
        if settings["folder"]:
            os.chdir(settings["folder"])
        restrict(settings, limits, role)
        getattr(sys.modules["pair"], role)(*ends)
    except BaseException:  # noqa: BLE001  (a forked process must never return into the server)
        os._exit(125)
    os._exit(0)


class Pair:
    """A solution and its tests, running."""

    def __init__(self, settings: Document, limits: Document, solution: int, tests: int, verdict: int) -> None:
        """Takes over the three descriptors."""
        ask_end, ask = os.pipe()
        answer_end, answer = os.pipe()
        spec = {"limits": limits, "own": settings["own"], "watch": settings["watch"], "already": 0, "exact": True}
        self.use = TreeUsage(spec)
        apart = settings["namespaces"]
        try:
            self.solution = fork_program(settings, limits, "solution", [solution, ask_end, answer], apart=apart)
            # Tests that are data run only our own code. Nobody but us knows their process.
            theirs = [tests, ask, answer_end, verdict]
            self.tests = fork_program(settings, limits, "tests", theirs, apart=apart and limits["apart"])
        finally:
            for end in (ask_end, ask, answer_end, answer, solution, tests, verdict):
                os.close(end)

    def watch(self) -> str:
        """Wait until the tests have ended; the name of the limit that was exceeded, or ''."""
        ended, check_s = os.pidfd_open(self.tests), CHECK_S
        solution = os.pidfd_open(self.solution)
        try:
            waiting = [ended, solution]
            while True:
                ready = select.select(waiting, [], [], check_s)[0]
                if ended in ready:
                    return ""
                if solution in ready:  # it ended early; what it left behind must not keep the tests waiting
                    waiting.remove(solution)
                    self._end_all_but_the_tests()
                if exceeded := self.use.exceeded(self.solution):
                    return exceeded
                check_s = min(check_s * 1.3, SLOW_CHECK_S)
        finally:
            os.close(ended)
            os.close(solution)

    def _end_all_but_the_tests(self) -> None:
        theirs = {self.tests, *descendants(self.tests)}
        for pid in descendants():
            if pid not in theirs:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def end(self, exceeded: str) -> Document:
        """Kill everything that runs, and report."""
        seconds = time.monotonic() - self.use.started
        peak = 0
        for pid in (self.solution, self.tests):
            with contextlib.suppress(OSError):  # it may have been reaped together with what it left
                os.kill(pid, signal.SIGKILL)
                peak = max(peak, os.wait4(pid, 0)[2].ru_maxrss * MAXRSS)
        self.use.settle(max(peak, kill_all(0, reaped=True)))
        return {"exceeded": exceeded, "seconds": seconds, "cpu_s": self.use.cpu, "peak": self.use.peak}


def run_pair(settings: Document, limits: Document, ends: "list[int]") -> Document:
    """Run a pair to its end, and leave nothing behind."""
    try:
        pair = Pair(settings, limits, *ends)
        return pair.end(pair.watch())
    finally:
        kill_all(0, reaped=True)


def serve(settings: Document, control: socket.socket) -> None:
    """Run pairs until the other end of the socket is closed."""
    gc.freeze()  # collections in forks leave the shared pages alone
    control.send(b"{}")  # ready
    while True:
        message, ends, _, _ = socket.recv_fds(control, 65_536, 3)
        if not message:
            return
        limits = json.loads(message)
        control.send(json.dumps(run_pair(settings, limits, ends)).encode())


def once(settings: Document) -> None:
    """Run one pair. Both programs are forked before this process reads what they are about."""
    solution, give_solution = os.pipe()
    tests, give_tests = os.pipe()
    verdict, give_verdict = os.pipe()
    for end in (give_solution, give_tests, verdict):
        os.set_inheritable(end, False)
    pair = Pair(settings, settings["limits"], solution, tests, give_verdict)
    document = json.loads(sys.stdin.buffer.read())
    for end, name in ((give_solution, "solution"), (give_tests, "tests")):
        with contextlib.suppress(BrokenPipeError), open(end, "wb") as file:  # noqa: PTH123
            file.write(document[name].encode())
    report = pair.end(pair.watch())
    with open(verdict, "rb") as file:  # noqa: PTH123
        report["verdict"] = base64.b64encode(file.read(VERDICT_BYTES)).decode()
    sys.stdout.write(json.dumps(report))


def main() -> None:
    settings = json.loads(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if LINUX:
        prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        prctl(4, 0)  # PR_SET_DUMPABLE
    if settings["control"] is None:
        once(settings)
    else:
        serve(settings, socket.socket(fileno=settings["control"]))

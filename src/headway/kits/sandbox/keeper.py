"""Keeps one run within its limits and leaves nothing of it behind. Standard library only, a program of its own.

It is started as `python -I -S -c <this file>`, reads one JSON document from stdin and writes one to stdout:

    {"argv", "cwd", "env", "files": {name: base64}, "data": [base64], "stdin", "uid", "limits": {...}, "watch": folder}
    {"ended", "code", "stdout", "stderr", "truncated", "seconds", "cpu_s", "peak", "status"}

It is the subreaper of what it starts (Linux), so a program that forks twice and starts a session of its own still
descends from it and dies with the run; it dies with its own parent. `{fd:0}` in argv becomes the number of a descriptor
that reads data[0], `{status}` of one that the program may report on. Why a program and not a thread: a subreaper is a
whole process, and setting limits between fork and exec is not safe where threads run.

Limits: the kernel's (address space, CPU per process, file size, processes per user) come first; sums over the tree
(CPU, memory, processes, disk) are looked at every few milliseconds, so a tree can pass one by what it does meanwhile.
"""

import base64
import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

Document = dict[str, Any]
LINUX = sys.platform == "linux"
FIRST_LOOK_S, LAST_LOOK_S = 0.005, 0.05
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
started_pid = 0  # of the program, once it runs


def prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants() -> list[int]:
    """Everything that we started, directly or not; parents before their children."""
    found, waiting = [], [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                    children = [int(each) for each in file.read().split()]
            except OSError:
                continue
            found += children
            waiting += children
    return found


def usage(pids: list[int]) -> tuple[float, int, int]:
    """CPU seconds, resident bytes and tasks of living processes."""
    cpu, resident, tasks = 0.0, 0, 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        cpu += sum(int(each) for each in fields[11:15]) / TICKS
        if fields[0] != b"Z":
            tasks += int(fields[17])
            resident += int(fields[21]) * PAGE
    return cpu, resident, tasks


def proportional(pids: list[int]) -> int:
    """Bytes of memory with shared pages counted once: exact, and slower than the sum of what is resident."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
                total += next(int(line.split()[1]) for line in file if line.startswith(b"Pss:")) * 1024
        except (OSError, StopIteration):
            total += usage([pid])[1]
    return total


def folder_bytes(folder: str) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total


def user_tasks(uid: int) -> int:
    """Tasks that this user has already: the kernel counts them all against RLIMIT_NPROC."""
    total = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116
                    total += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
            except OSError:
                continue
    return total


def limit_ourselves(limits: Document, uid: "int | None", own: int) -> None:
    """In the child, before exec."""

    def lower(what: int, value: int, hard: int = 0) -> None:
        most = resource.getrlimit(what)[1]
        wanted = max(value, hard)
        if most != resource.RLIM_INFINITY:
            value, wanted = min(value, most), min(wanted, most)
        resource.setrlimit(what, (value, wanted))

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


def start(spec: Document, data: "list[int]", status: int) -> "tuple[int, int, int, int]":
    """Forks and executes; gives the process and our ends of its stdin, stdout and stderr."""
    argv = []
    for each in spec["argv"]:
        if each.startswith("{fd:"):
            each = str(data[int(each[4:-1])])
        argv.append(str(status) if each == "{status}" else each)
    inside_in, ours_in = os.pipe()
    ours_out, inside_out = os.pipe()
    ours_err, inside_err = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for number, end in enumerate((inside_in, inside_out, inside_err)):
                os.dup2(end, number)
            for end in (*data, status):
                os.set_inheritable(end, True)
            keep = {0, 1, 2, status, *data}
            for end in range(3, 256):
                if end not in keep:
                    try:
                        os.close(end)
                    except OSError:
                        continue
            os.chdir(spec["cwd"])
            for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            limit_ourselves(spec["limits"], spec["uid"], spec["own"])
            if LINUX:
                prctl(38, 1)  # PR_SET_NO_NEW_PRIVS: no set-uid program gives anything back
            os.execvpe(argv[0], argv, spec["env"])
        except FileNotFoundError:
            os.write(2, f"keeper: there is no program {argv[0]!r}\n".encode())
            os._exit(125)
        except BaseException as error:  # noqa: BLE001  (whatever it is, this process must not live on as a second keeper)
            os.write(2, f"keeper: {error}\n".encode())
            os._exit(125)
    for end in (inside_in, inside_out, inside_err, *data):
        os.close(end)
    return pid, ours_in, ours_out, ours_err


def kill_all(pid: int, reaped: bool) -> None:
    """Ends the whole tree, however often it forks meanwhile."""
    for _ in range(2000):
        if pid > 0 and (not reaped or not LINUX):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)  # atomic: nothing in the group gets to fork past it
        for each in descendants():
            try:
                os.kill(each, signal.SIGKILL)
            except OSError:
                continue
        while True:
            try:
                done, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if done == 0:
                break
            reaped = reaped or done == pid
        time.sleep(0.001)


def keep(spec: Document) -> Document:
    limits = spec["limits"]
    limits["tasks_before"] = 0
    if LINUX:
        prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        prctl(4, 0)  # PR_SET_DUMPABLE: the program cannot open our descriptors, even as the same user
        if spec["uid"] is None:
            limits["tasks_before"] = user_tasks(os.getuid())
    for name, content in spec["files"].items():
        path = os.path.join(spec["cwd"], name)  # noqa: PTH118
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(base64.b64decode(content))
    if spec["uid"] is not None and spec["watch"]:
        for where, _, names in os.walk(spec["watch"]):
            for each in (where, *(os.path.join(where, name) for name in names)):  # noqa: PTH118
                os.chown(each, spec["uid"], spec["uid"])
    data = []
    for content in spec["data"]:
        with tempfile.TemporaryFile() as unnamed:
            unnamed.write(base64.b64decode(content))
            unnamed.seek(0)
            data.append(os.dup(unnamed.fileno()))
    ours_status, status = os.pipe()

    started = time.monotonic()
    pid, ours_in, ours_out, ours_err = start(spec, data, status)
    global started_pid
    started_pid = pid
    os.close(status)
    feed = memoryview(base64.b64decode(spec["stdin"]))
    heard: dict[int, bytearray] = {ours_out: bytearray(), ours_err: bytearray()}
    for end in (ours_in, ours_out, ours_err, ours_status):
        os.set_blocking(end, False)
    open_ends = {ours_out, ours_err}
    writing = ours_in if feed else -1
    if not feed:
        os.close(ours_in)
    truncated, stopped, code, peak, cpu, look, disk_at = False, "", None, 0, 0.0, FIRST_LOOK_S, 0.0
    reaped = False

    def listen(wait: float) -> bool:
        nonlocal truncated, writing, feed
        ready, able, _ = select.select(list(open_ends), [writing] if writing >= 0 else [], [], wait)
        if able:
            try:
                feed = feed[os.write(writing, feed[:65536]) :]
            except BlockingIOError:
                pass
            except OSError:
                feed = feed[:0]
            if not feed:
                os.close(writing)
                writing = -1
        for end in ready:
            chunk = os.read(end, 1 << 16)
            if not chunk:
                open_ends.discard(end)
                os.close(end)
            room = limits["output_bytes"] - len(heard[end])
            truncated = truncated or len(chunk) > room
            heard[end] += chunk[: max(room, 0)]
        return bool(ready or able)

    while True:
        try:
            done, ending = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            done, ending = pid, 0
        if done:
            reaped, code = True, os.waitstatus_to_exitcode(ending)
            break
        there = descendants() if LINUX else [pid]
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive, resident, tasks = usage(there) if LINUX else (0.0, 0, 1)
        cpu = alive + ours.ru_utime + ours.ru_stime
        if resident > limits["memory_bytes"]:
            resident = proportional(there)
        peak = max(peak, resident)
        now = time.monotonic()
        if now - started > limits["wall_s"]:
            stopped = "wall"
        elif cpu > limits["cpu_s"]:
            stopped = "cpu"
        elif resident > limits["memory_bytes"]:
            stopped = "memory"
        elif tasks > limits["processes"] + spec["own"]:
            stopped = "processes"
        elif spec["watch"] and now > disk_at:
            before = time.monotonic()
            if folder_bytes(spec["watch"]) > limits["disk_bytes"]:
                stopped = "disk"
            disk_at = now + max(0.02, 10 * (time.monotonic() - before))
        if stopped:
            break
        if not listen(look if open_ends or writing >= 0 else 0) and not open_ends:
            time.sleep(look)
        look = min(look * 1.3, LAST_LOOK_S)

    seconds = time.monotonic() - started
    kill_all(pid, reaped)
    if spec["watch"] and not stopped and folder_bytes(spec["watch"]) > limits["disk_bytes"]:
        stopped = "disk"
    until = time.monotonic() + 1.0
    while open_ends and time.monotonic() < until:
        if writing >= 0:
            os.close(writing)
            writing = -1
        if not listen(0.05):
            break
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1024 if LINUX else 1
    try:
        reported = os.read(ours_status, 1 << 16).decode("utf-8", "replace")
    except OSError:
        reported = ""
    return {
        "ended": stopped or "exit",
        "code": code,
        "stdout": base64.b64encode(heard[ours_out]).decode(),
        "stderr": base64.b64encode(heard[ours_err]).decode(),
        "truncated": truncated,
        "seconds": seconds,
        "cpu_s": max(cpu, ours.ru_utime + ours.ru_stime),
        "peak": max(peak, ours.ru_maxrss * unit),
        "status": reported,
    }


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    spec = json.loads(sys.stdin.buffer.read())
    folder = ""
    if not spec["cwd"]:  # inside a container: a folder of our own
        folder = spec["cwd"] = tempfile.mkdtemp()
        spec["env"]["HOME"] = spec["env"]["TMPDIR"] = folder
    try:
        report = keep(spec)
    except SystemExit:  # our parent is gone: nobody will read a report
        kill_all(started_pid, reaped=False)
        raise
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()

"""Run one program within its limits and leave nothing behind. A self-contained script: standard library only.

It is started as `python -I -S -c <this file>`, reads one JSON document from stdin and writes one to stdout:

    {"argv", "cwd", "env", "files": {name: base64}, "data": [base64], "stdin", "uid", "limits", "watch",
     "already", "own", "parent"}
    {"ended", "code", "stdout", "stderr", "truncated", "seconds", "cpu_s", "peak", "status"}

It is the subreaper of its children (Linux), so a program that forks twice and starts a new session still descends from
it and dies with the run; the keeper dies with its own parent. `{fd:0}` in argv becomes the number of a descriptor that
reads data[0], `{status}` that of a descriptor for status text. Why a process and not a thread: a subreaper is a whole
process, and setting limits between fork and exec is not safe in a process with threads.

Limits: the kernel's (address space, CPU per process, file size, processes per user) come first; sums over the tree
(CPU, memory, processes, disk) are checked every few milliseconds, so a tree can briefly exceed one in between.
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
FIRST_CHECK_S, LAST_CHECK_S = 0.005, 0.05
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
started_pid = 0  # of the program, once it runs


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


def descendants() -> "list[int]":
    """All descendants of this process; parents before their children."""
    pids, waiting = [], [os.getpid()]
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


def folder_bytes(folder: str) -> int:
    total, waiting = 0, [folder]  # a loop: a program can nest folders deeper than Python can call functions
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                total += entry.stat(follow_symlinks=False).st_blocks * 512
                waiting += [entry.path] if entry.is_dir(follow_symlinks=False) else []
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


def start(spec: Document, data: "list[int]", status: int) -> "tuple[int, int, int, int]":
    """Fork and execute; returns the process id and our ends of its stdin, stdout and stderr."""
    numbers = {"{status}": status, **{f"{{fd:{place}}}": end for place, end in enumerate(data)}}
    argv = [str(numbers.get(word, word)) for word in spec["argv"]]
    inside_in, ours_in = os.pipe()
    ours_out, inside_out = os.pipe()
    ours_err, inside_err = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(spec, argv, (inside_in, inside_out, inside_err), [*data, status])
    for end in (inside_in, inside_out, inside_err, *data):
        os.close(end)
    return pid, ours_in, ours_out, ours_err


def become(spec: Document, argv: "list[str]", ends: "tuple[int, int, int]", inherited: "list[int]") -> None:
    """Turn this child process into the program; never returns."""
    try:
        os.setsid()
        for number, end in enumerate(ends):
            os.dup2(end, number)
        for end in inherited:
            os.set_inheritable(end, True)
        for end in {*range(3, 256)} - {*inherited}:
            with contextlib.suppress(OSError):
                os.close(end)
        os.chdir(spec["cwd"])
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        limit_ourselves(spec["limits"], spec["uid"], spec["own"])
        if LINUX:
            prctl(38, 1)  # PR_SET_NO_NEW_PRIVS: set-uid programs give no privileges
        os.execvpe(argv[0], argv, spec["env"])
    except FileNotFoundError:
        os.write(2, f"keeper: there is no program {argv[0]!r}\n".encode())
    except BaseException as error:  # noqa: BLE001  (on any error, this process must not continue as a second keeper)
        os.write(2, f"keeper: {error}\n".encode())
    os._exit(125)


def kill_all(pid: int, reaped: bool) -> None:
    """Kill the whole process tree, even if it keeps forking."""
    for _ in range(2000):
        if pid > 0 and (not reaped or not LINUX):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)  # atomic: no process of the group can fork past it
        for descendant in descendants():
            with contextlib.suppress(OSError):
                os.kill(descendant, signal.SIGKILL)
        while True:
            try:
                done, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if done == 0:
                break
            reaped = reaped or done == pid
        time.sleep(0.001)


def prepare(spec: Document) -> "list[int]":
    """Write the program's files and change their owner; returns descriptors that read `data`."""
    for name, content in spec["files"].items():
        path = os.path.join(spec["cwd"], name)  # noqa: PTH118
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(base64.b64decode(content))
    if spec["uid"] is not None and spec["watch"]:
        for folder, _, files in os.walk(spec["watch"]):
            for path in (folder, *(os.path.join(folder, name) for name in files)):  # noqa: PTH118
                os.chown(path, spec["uid"], spec["uid"], follow_symlinks=False)
    data = []
    for content in spec["data"]:
        with tempfile.TemporaryFile() as unnamed:
            unnamed.write(base64.b64decode(content))
            unnamed.seek(0)
            data.append(os.dup(unnamed.fileno()))
    return data


class Streams:
    """stdin, stdout and stderr of the program."""

    def __init__(self, stdin: int, stdout: int, stderr: int, feed: bytes, most_bytes: int) -> None:
        self.truncated = False
        self._output = {stdout: bytearray(), stderr: bytearray()}
        self._open = {stdout, stderr}
        self._stdin, self._feed, self._most = stdin, memoryview(feed), most_bytes
        for end in (stdin, stdout, stderr):
            os.set_blocking(end, False)
        if not feed:
            self.close_stdin()

    def close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
        self._stdin = -1

    def exchange(self, wait_s: float) -> bool:
        """Write and read once; returns whether any bytes moved. If all streams are closed, it only waits."""
        writing = [self._stdin] if self._stdin >= 0 else []
        ready, able, _ = select.select(list(self._open), writing, [], wait_s)
        if able:
            self._write()
        for end in ready:
            self._read(end)
        return bool(ready or able)

    def _write(self) -> None:
        try:
            self._feed = self._feed[os.write(self._stdin, self._feed[:65536]) :]
        except BrokenPipeError:  # the program has closed its stdin
            self._feed = self._feed[:0]
        if not self._feed:
            self.close_stdin()

    def _read(self, end: int) -> None:
        chunk = os.read(end, 1 << 16)
        if not chunk:
            self._open.discard(end)
            os.close(end)
        room = self._most - len(self._output[end])
        self.truncated = self.truncated or len(chunk) > room
        self._output[end] += chunk[: max(room, 0)]

    def drain(self, limit_s: float) -> None:
        """Read the remaining output of a program that has ended."""
        self.close_stdin()
        until = time.monotonic() + limit_s
        while self._open and time.monotonic() < until and self.exchange(0.05):
            pass

    def output(self, end: int) -> str:
        return base64.b64encode(self._output[end]).decode()


class TreeUsage:
    """Measures a process tree and compares it with the limits."""

    def __init__(self, spec: Document) -> None:
        self.peak, self.cpu = 0, 0.0
        self.started = time.monotonic()
        self._limits = spec["limits"]
        self._tasks = spec["limits"]["processes"] + spec["own"]
        self._folder: str = spec["watch"]
        self._disk, self._disk_at = spec["limits"]["disk_bytes"] + spec["already"], 0.0

    def exceeded(self, pid: int) -> str:
        """The name of the limit that the tree exceeds; empty if none."""
        limits = self._limits
        pids = descendants() if LINUX else [pid]
        cpu, resident, tasks = usage(pids) if LINUX else (0.0, 0, 1)
        if resident > limits["memory_bytes"]:
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

    def settle(self) -> None:
        """Read the final sums from the kernel, after every process has ended."""
        self._note(0.0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1024 if LINUX else 1))

    def _note(self, cpu: float, resident: int) -> None:
        done = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu = max(self.cpu, cpu + done.ru_utime + done.ru_stime)
        self.peak = max(self.peak, resident)


def ended(pid: int) -> "tuple[bool, int | None]":
    """Whether the program has ended, and with which code."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return bool(done), os.waitstatus_to_exitcode(status) if done else None


def keep(spec: Document) -> Document:
    """Run the program, then kill its remaining processes."""
    global started_pid
    bind_to_parent(spec)
    data = prepare(spec)
    ours_status, status = os.pipe()
    use = TreeUsage(spec)
    started_pid, stdin, stdout, stderr = start(spec, data, status)
    os.close(status)
    feed = base64.b64decode(spec["stdin"])
    streams = Streams(stdin, stdout, stderr, feed, spec["limits"]["output_bytes"])
    stopped, check_s = "", FIRST_CHECK_S
    while True:
        reaped, code = ended(started_pid)
        if not reaped:
            stopped = use.exceeded(started_pid)
        if reaped or stopped:
            break
        streams.exchange(check_s)
        check_s = min(check_s * 1.3, LAST_CHECK_S)
    seconds = time.monotonic() - use.started
    kill_all(started_pid, reaped)
    if not stopped and use.disk_exceeded():
        stopped = "disk"
    streams.drain(1.0)
    use.settle()
    reported = os.read(ours_status, 1 << 16) if select.select([ours_status], [], [], 0)[0] else b""
    return {
        "ended": stopped or "exit",
        "code": code,
        "stdout": streams.output(stdout),
        "stderr": streams.output(stderr),
        "truncated": streams.truncated,
        "seconds": seconds,
        "cpu_s": use.cpu,
        "peak": use.peak,
        "status": reported.decode("utf-8", "replace"),
    }


def bind_to_parent(spec: Document) -> None:
    """Die with our parent, adopt orphans of the program, and protect our descriptors from it."""
    spec["limits"]["tasks_before"] = 0
    if LINUX:
        prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        prctl(4, 0)  # PR_SET_DUMPABLE: the program cannot open our descriptors, even as the same user
        if spec["uid"] is None:
            spec["limits"]["tasks_before"] = user_tasks(os.getuid())
    if spec["parent"] and os.getppid() != spec["parent"]:
        sys.exit(0)  # the parent died before prctl took effect


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored SIGCHLD is inherited and would hide exit codes
    spec = json.loads(sys.stdin.buffer.read())
    folder = ""
    if not spec["cwd"]:  # inside a container: create a folder
        folder = spec["cwd"] = tempfile.mkdtemp()
        spec["env"]["HOME"] = spec["env"]["TMPDIR"] = folder
    try:
        report = keep(spec)
    except SystemExit:  # the parent is gone or does not need a report
        kill_all(started_pid, reaped=False)
        raise
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()

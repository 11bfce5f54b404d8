"""Run one program within its limits and leave nothing behind. Standard library only, with `tree.py`.

It is started as `python -I -S -c <launch.script's source>`, reads one JSON document from stdin and writes the line
`started` and one JSON document to stdout:

    {"argv", "cwd", "env", "files": {name: base64}, "data": [base64], "stdin", "uid", "limits", "watch",
     "already", "own", "parent", "cgroup"}
    {"ended", "code", "not_started", "stdout", "stderr", "truncated", "seconds", "cpu_s", "peak", "status"}

Why a program could not be started travels over a pipe that closes when the program starts, so that no program can
write it.

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
import signal
import sys
import tempfile
import time

from headway.kits.sandbox.tree import (
    LINUX,
    MAXRSS,
    Document,
    TreeUsage,
    kill_all,
    limit_ourselves,
    prctl,
    user_tasks,
)  # fmt: skip

FIRST_CHECK_S, LAST_CHECK_S = 0.005, 0.05
started_pid = 0  # of the program, once it runs


def start(spec: Document, data: "list[int]", status: int, trouble: int) -> "tuple[int, int, int, int]":
    """Fork and execute; returns the process id and our ends of its stdin, stdout and stderr."""
    numbers = {"{status}": status, **{f"{{fd:{place}}}": end for place, end in enumerate(data)}}
    argv = [str(numbers.get(word, word)) for word in spec["argv"]]
    inside_in, ours_in = os.pipe()
    ours_out, inside_out = os.pipe()
    ours_err, inside_err = os.pipe()
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(spec, argv, (inside_in, inside_out, inside_err), [*data, status], trouble, keeper)
    for end in (inside_in, inside_out, inside_err, *data):
        os.close(end)
    return pid, ours_in, ours_out, ours_err


def become(
    spec: Document,
    argv: "list[str]",
    ends: "tuple[int, int, int]",
    inherited: "list[int]",
    trouble: int,
    keeper: int,
) -> None:
    """Turn this child process into the program; never returns. `trouble` closes when the program starts."""
    try:
        if spec["cgroup"]:
            with open(os.path.join(spec["cgroup"], "cgroup.procs"), "w") as file:  # noqa: PTH118, PTH123
                file.write("0")
        os.setsid()
        for number, end in enumerate(ends):
            os.dup2(end, number)
        for end in inherited:
            os.set_inheritable(end, True)
        for end in {*range(3, 256)} - {*inherited, trouble}:
            with contextlib.suppress(OSError):
                os.close(end)
        os.chdir(spec["cwd"])
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        limit_ourselves(spec["limits"], spec["uid"], spec["own"])
        if LINUX:
            prctl(38, 1)  # PR_SET_NO_NEW_PRIVS: set-uid programs give no privileges
            prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its keeper; a change of user clears this
            if os.getppid() != keeper:
                os._exit(125)
        os.execvpe(argv[0], argv, spec["env"])
    except FileNotFoundError:
        os.write(trouble, f"there is no program {argv[0]!r}".encode())
    except BaseException as error:  # noqa: BLE001  (on any error, this process must not continue as a second keeper)
        os.write(trouble, str(error).encode() or b"it could not be started")
    os._exit(125)


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
    ours_trouble, trouble = os.pipe()
    use = TreeUsage(spec)
    sys.stdout.write("started\n")  # from here on, a report that does not come is the program's doing
    sys.stdout.flush()
    started_pid, stdin, stdout, stderr = start(spec, data, status, trouble)
    os.close(status)
    os.close(trouble)
    not_started = os.read(ours_trouble, 4096).decode("utf-8", "replace")
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
    use.settle(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * MAXRSS)
    reported = os.read(ours_status, 1 << 16) if select.select([ours_status], [], [], 0)[0] else b""
    return {
        "ended": stopped or "exit",
        "code": code,
        "not_started": not_started,
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
    if not spec["cwd"]:  # inside a container: create a folder, which is removed with the container
        spec["cwd"] = spec["env"]["HOME"] = spec["env"]["TMPDIR"] = tempfile.mkdtemp()
    try:
        report = keep(spec)
    finally:  # also if the parent is gone, or on an error of ours: no process survives
        if started_pid:
            kill_all(started_pid, reaped=True)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()

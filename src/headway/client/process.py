"""One process that we start, listen to and end.

    child = Child("loop", ["headway.loop", "."], pipe=pipe, log=Path("loop.log"))   # lives on; `children.py` keeps it
    output = run([sys.executable, "-c", "print(1)"], timeout_s=10.0)                # ends by itself, or is ended

Each gets its own session. Ctrl-C therefore reaches only us, and ending a process also ends its descendants.

Not covered: a descendant that starts its own session. Ours do so only under `parent.py`, which ends them.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.nouns import errors

_LARGEST_LOG = 5_000_000
_LONGEST_LINE = 1_000_000
_CHUNK = 65536
_CHUNKS = 16  # read in one go, so that a child that never stops writing cannot occupy its parent
_CODED = re.compile(r"([a-z][a-z_]{2,40}): (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait before a process is started again: doubled with each early death in a row."""

    first_s: float = 0.2
    most_s: float = 30.0
    settled_s: float = 60.0  # alive for so long: the next death counts as the first

    def wait_s(self, deaths: int) -> float:
        return min(self.most_s, self.first_s * 2.0 ** (deaths - 1))


class Child:
    """A Python module that runs as a process, ends with us, and can be started again.

    A child that `reports` writes a JSON object as its first line once it is ready, or if it cannot start
    (`code`, `message`, `hint`). stderr goes to `log`, or to our stderr.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        pipe: int,
        log: Path | None = None,
        reports: bool = False,
        inherits: tuple[int, ...] = (),
        backoff: Backoff | None = None,
    ) -> None:
        """`arguments`: the module and what it gets; `pipe`: ends when we do; `inherits`: descriptors for the child."""
        self.name = name
        self.arguments = list(arguments)
        self.report: dict[str, Any] = {}  # of this start; empty until it came
        self.status: int | None = None  # of its last end
        self.deaths = 0  # early ones, in a row
        self.start_after = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = pipe
        self._log = log
        self._log_start = 0
        self._reports = reports
        self._inherits = inherits
        self._backoff = backoff or Backoff()
        self._started = 0.0
        self._partial = b""  # of a line
        self._open = False  # its output

    @property
    def running(self) -> bool:
        """Whether it was started and its end was not seen yet."""
        return self._process is not None

    @property
    def ready(self) -> bool:
        """Whether it runs and has reported that it can work."""
        return self.running and bool(self.report) and "code" not in self.report

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    @property
    def output(self) -> int | None:
        """The descriptor to wait on for more lines, while there can be any."""
        if not self._open or self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def start(self, now: float) -> None:
        log = None if self._log is None else self._open_log(self._log)
        try:
            self._process = subprocess.Popen(
                # -P: a module in the project's folder must not replace one of Python's
                [sys.executable, "-P", "-m", "headway.client.parent", str(self._pipe), *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(self._pipe, *self._inherits),
                start_new_session=True,
            )
        finally:
            if log is not None:
                os.close(log)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._started = now
        self._open, self._partial, self.report, self.status = True, b"", {}, None

    def _open_log(self, path: Path) -> int:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if path.exists() and path.stat().st_size > _LARGEST_LOG:
            flags |= os.O_TRUNC
        log = os.open(path, flags, 0o600)
        self._log_start = os.fstat(log).st_size
        return log

    def lines(self) -> list[str]:
        """The whole lines that it wrote since the last call, without its report, which is in `report` from now on."""
        output = self.output
        if output is None:
            return []
        with suppress(BlockingIOError):
            for _ in range(_CHUNKS):
                chunk = os.read(output, _CHUNK)
                if not chunk:
                    self._open = False
                    break
                self._partial = (self._partial + chunk)[-_LONGEST_LINE:]
        *whole, self._partial = self._partial.split(b"\n")
        lines = [line.decode("utf-8", "replace") for line in whole]
        if self._reports and not self.report and lines:
            self.report = _json_object(lines[0])
            return lines[1:] if self.report else lines
        return lines

    @property
    def ended(self) -> bool:
        """Whether it runs no more; `bury` takes note of it."""
        return self._process is None or _has_ended(self._process)

    def bury(self, now: float) -> int:
        """End what is left of a child that ended; returns its exit status. It may start again at `start_after`."""
        status = self._end()
        self.deaths = 1 if now - self._started > self._backoff.settled_s else self.deaths + 1
        self.start_after = now + self._backoff.wait_s(self.deaths)
        return status

    def ask_to_stop(self) -> None:
        if self._process is not None:
            _signal(self._process, signal.SIGTERM)

    def kill(self) -> None:
        """End it and everything in its session now."""
        if self._process is not None:
            self._end()

    def _end(self) -> int:
        assert self._process is not None
        self.status = _end_session(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process, self._open = None, False
        return self.status

    def failure(self) -> errors.Unavailable:
        """Why it could not start: what it reported, or the last line of its log."""
        if "code" in self.report:
            report = {"message": "", "hint": "", **self.report}
            return errors.Unavailable(str(report["message"]), code=str(report["code"]), hint=str(report["hint"]))
        if self._log is None:
            how = "" if self.status is None else f" ({exit_words(self.status)})"
            return errors.Unavailable(
                f"The {self.name} ended{how} before it was ready.",
                code="child_failed",
                hint="Its messages are above.",
            )
        last = self._last_line(self._log)
        coded = _CODED.fullmatch(last)
        if coded:
            return errors.Unavailable(coded[2], code=coded[1])
        return errors.Unavailable(
            f"The {self.name} could not start: {last[:300]}", code="child_failed", hint=f"Its log: {self._log}"
        )

    def too_late(self, timeout_s: float) -> errors.Unavailable:
        """It was not ready in time."""
        return errors.Unavailable(
            f"The {self.name} did not answer within {timeout_s:.0f} s.",
            code="child_failed",
            hint="Its messages are above." if self._log is None else f"Its log: {self._log}",
        )

    def _last_line(self, log: Path) -> str:
        try:
            text = log.read_bytes()[self._log_start :].decode("utf-8", "replace")
            return text.strip().splitlines()[-1]
        except (OSError, IndexError):
            return "it wrote nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput:
    """The output and the exit status of a program."""

    status: int
    stdout: bytes
    stderr: bytes
    timed_out: bool

    @property
    def ended(self) -> str:
        """How it ended, for people: "status 3", or the signal's name."""
        return exit_words(self.status)


def run(
    command: Sequence[str],
    data: bytes = b"",
    *,
    timeout_s: float,
    grace_s: float = 0.0,
    most_bytes: int = 1 << 26,
    env: Mapping[str, str] | None = None,
    before_stop: Callable[[], None] = lambda: None,
) -> ProgramOutput:
    """Run a program with `data` as its stdin; keep at most `most_bytes` of each of its streams.

    After `timeout_s`, or when we are interrupted: `before_stop`, SIGTERM, `grace_s`, then SIGKILL for its session.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        start_new_session=True,
    )
    try:
        with _Streams(process, data, most_bytes) as streams:
            complete = False
            try:
                complete = streams.exchange(time.monotonic() + timeout_s)
            finally:
                if not complete:
                    before_stop()
                    _signal(process, signal.SIGTERM)
                    streams.exchange(time.monotonic() + grace_s)
    finally:  # also when we are interrupted before the first byte
        with process:
            status = _end_session(process)
    return ProgramOutput(status=status, stdout=streams.read(1), stderr=streams.read(2), timed_out=not complete)


class _Streams:
    """stdin, stdout and stderr of a program, fed and read together so that none of them blocks it."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes, most_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._left = memoryview(data)
        self._most = most_bytes
        self._parts = {1: bytearray(), 2: bytearray()}
        self._selector = selectors.DefaultSelector()
        for number, stream in enumerate((process.stdin, process.stdout, process.stderr)):
            os.set_blocking(stream.fileno(), False)
            event = selectors.EVENT_READ if number else selectors.EVENT_WRITE
            self._selector.register(stream, event, number)

    def __enter__(self) -> _Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def read(self, number: int) -> bytes:
        return bytes(self._parts[number])

    def exchange(self, until: float) -> bool:
        """Whether the program closed its streams and ended in time."""
        while self._selector.get_map():
            left_s = until - time.monotonic()
            if left_s <= 0.0:
                return False
            for key, _ in self._selector.select(left_s):
                open_still = self._write() if key.data == 0 else self._read(key.data, key.fd)
                if not open_still:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]  # these are the streams that we registered
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _write(self) -> bool:
        assert self._process.stdin is not None
        try:
            self._left = self._left[os.write(self._process.stdin.fileno(), self._left[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except OSError:  # it does not want to read any more
            return False
        return bool(self._left)

    def _read(self, number: int, descriptor: int) -> bool:
        chunk = os.read(descriptor, _CHUNK)
        part = self._parts[number]
        part += chunk[: self._most - len(part)]
        return bool(chunk)


def exit_words(status: int) -> str:
    """An exit status for people: "status 3", or the signal's name."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait without reaping it, if the system allows that: until then its session id is not reused."""
    if process.returncode is None and hasattr(os, "waitid"):
        with suppress(ChildProcessError):  # already reaped: `poll` handles this
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if not _has_ended(process):
        process.send_signal(number)


def _end_session(process: subprocess.Popen[bytes]) -> int:
    """Kill a process and everything in its session, and wait for it."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses where only a dead process is left
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _json_object(line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}

"""A child process that is started again when it dies: sooner at first, later each time it dies young."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headway.nouns.errors import Unavailable

__all__ = ["Child"]

_FIRST_S, _LATEST_S = 0.2, 30.0  # before it is started again
_SETTLED_S = 60.0  # alive for so long: the next death counts as the first
_LARGEST_LOG = 5_000_000
_CODED = re.compile(r"([a-z][a-z_]{2,40}): (.+)")


class Child:
    """One process of `up`. It gets the read end of a pipe that ends when we do, and a session of its own."""

    def __init__(self, name: str, arguments: Sequence[str], *, pipe: int, log: Path) -> None:
        self.name = name
        self.arguments = list(arguments)
        self.process: subprocess.Popen[bytes] | None = None
        self.deaths = 0  # in a row, each of them young
        self.starts = 0
        self.not_before = 0.0
        self._pipe = pipe
        self._log = log
        self._started = 0.0
        self._from = 0
        self._rest = b""

    def start(self, now: float) -> None:
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if self._log.exists() and self._log.stat().st_size > _LARGEST_LOG:
            flags |= os.O_TRUNC
        log = os.open(self._log, flags, 0o600)
        self._from = os.fstat(log).st_size
        try:
            self.process = subprocess.Popen(
                # -P: a module of the project's folder must not stand in for one of Python's
                [sys.executable, "-P", "-m", "headway.loop.parent", str(self._pipe), *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(self._pipe,),
                start_new_session=True,  # Ctrl-C is for the supervisor, which stops its children in order
            )
        finally:
            os.close(log)
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.starts += 1
        self._started = now
        self._rest = b""

    def lines(self) -> list[str]:
        """What it has said since the last time, as whole lines."""
        if self.process is None or self.process.stdout is None or self.process.stdout.closed:
            return []
        while True:
            try:
                chunk = os.read(self.process.stdout.fileno(), 65536)
            except BlockingIOError:
                break
            if not chunk:
                break
            self._rest = (self._rest + chunk)[-1_000_000:]
        *whole, self._rest = self._rest.split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def died(self, now: float) -> int | None:
        """Its exit status if it has ended since the last time this was asked; says when it may start again."""
        if self.process is None or self.process.poll() is None:
            return None
        status = self.process.returncode
        self._let_go()
        self.deaths = 1 if now - self._started > _SETTLED_S else self.deaths + 1
        self.not_before = now + min(_LATEST_S, _FIRST_S * 2.0 ** (self.deaths - 1))
        return status

    def ask_to_stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """The whole session: a child of a child does not stay either."""
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._let_go()

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def failure(self) -> Unavailable:
        """Why it could not start, from the last line of its log."""
        try:
            said = self._log.read_bytes()[self._from :].decode("utf-8", "replace")
            last = said.strip().splitlines()[-1]
        except (OSError, IndexError):
            last = "it said nothing"
        coded = _CODED.fullmatch(last)
        if coded:
            return Unavailable(coded[2], code=coded[1])
        return Unavailable(
            f"The {self.name} could not start: {last[:300]}", code="child_failed", hint=f"Its log: {self._log}"
        )

    def _let_go(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

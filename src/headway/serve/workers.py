"""Several processes behind one port, for a PostgreSQL store: a small parent that answers nothing itself.

It loads no numpy, no web server and no torch. It binds the port once, without SO_REUSEPORT, and hands the listening
socket to its workers, who take connections from it in turn; while one is replaced, the others go on, and while all are,
connections wait. Workers end with it, however it ends: the kernel tells them, and so does a pipe. Stopping: SIGTERM to
all, each drains, and what is left after `stop_timeout_s` is killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from headway.nouns.errors import InvalidInput, Unavailable
from headway.serve.address import Address, bind, remove_address, write_address
from headway.serve.metrics import WorkerMetrics
from headway.settings import ServerSettings, load

__all__ = ["Workers", "server_settings"]

logger = logging.getLogger("headway.serve")
_START_S = 60.0  # a worker that has not answered by then will not
_SOON_S, _LATEST_S = 0.1, 30.0  # before a worker is started again: sooner at first, later each time it dies young
_SETTLED_S = 60.0  # alive for so long: the next death counts as the first
_MOST_DEATHS = 10  # in a row, while no worker answers
_SPARE_S = 0.5  # workers keep `stop_timeout_s` themselves
_LOOK_S = 0.5
_LONGEST = 100_000


def server_settings(
    folder: Path, *, host: str | None = None, port: int | None = None, workers: int | None = None
) -> ServerSettings:
    """[server] of headway.toml, with what a command line says instead; an error where its store serves one process."""
    found = load(folder)
    server = found.server
    chosen = replace(
        server,
        host=server.host if host is None else host,
        port=server.port if port is None else port,
        workers=server.workers if workers is None else workers,
    )
    if chosen.workers > 1 and found.store.embedded:
        raise InvalidInput(
            f"{chosen.workers} workers need a PostgreSQL store; this project's is the embedded one.",
            code="one_worker",
            hint='Leave --workers out, or set [store] url = "postgresql://…"; `headway data copy` moves a store there.',
        )
    return chosen


class Workers:
    """The processes of one server.

    Workers(Path("."), settings, announce=print).run()      # until SIGTERM or Ctrl-C; returns the exit status
    """

    def __init__(
        self,
        folder: Path,
        settings: ServerSettings,
        *,
        announce: Callable[[Address, bool], None],
        log_requests: bool = True,
    ) -> None:
        self._folder = folder
        self._home = folder / ".headway"
        self._settings = settings
        self._announce = announce  # told the address, and whether there is any key
        self._more = [] if log_requests else ["--no-request-log"]
        self._asked = 0  # to stop, so many times
        self._workers: list[_Worker] = []

    def run(self) -> int:
        listening = bind(self._settings)
        address = Address(host=self._settings.host, port=listening.getsockname()[1], pid=os.getpid())
        told, alive = os.pipe()  # workers read `told`; it ends when `alive`, which only we hold, is closed
        WorkerMetrics.remove(self._home / "run", address.port)
        status = 0
        with self._signals():
            try:
                command = self._command(address, listening, told)
                inherited = (told, listening.fileno())
                for number in range(self._settings.workers):
                    self._workers.append(_Worker(number, [*command, "--worker", str(number)], inherited))
                if self._begin():
                    write_address(self._home, address)
                    self._announce(address, any(each.keys for each in self._workers))
                    status = self._watch()
            finally:
                listening.close()
                clean = self._stop()
                os.close(alive)
                os.close(told)
                remove_address(self._home)
                WorkerMetrics.remove(self._home / "run", address.port)
        return status if clean else 1

    def _command(self, address: Address, listening: socket.socket, pipe: int) -> list[str]:
        return [
            # -P: a module of the project's folder must not stand in for one of Python's. `parent` binds it to us first.
            sys.executable, "-P", "-m", "headway.loop.parent", str(pipe),
            "headway.serve", str(self._folder), *self._more, "--host", address.host, "--port", str(address.port),
            "--workers", str(self._settings.workers), "--socket", str(listening.fileno()),
        ]  # fmt: skip

    # -- running

    def _begin(self) -> bool:
        """Whether all answer; False: asked to stop meanwhile."""
        until = time.monotonic() + _START_S
        for each in self._workers:
            each.start()
        while not self._asked:
            self._wait(until)
            for each in self._workers:
                each.listen()
                if each.ended:
                    raise each.failure()
            if all(each.ready for each in self._workers):
                return True
            if time.monotonic() > until:
                raise Unavailable(f"The workers did not answer within {_START_S:.0f} s.", code="child_failed")
        return False

    def _watch(self) -> int:
        """Keeps all alive until asked to stop, or until none can be."""
        while not self._asked:
            starting = [each.not_before for each in self._workers if each.process is None]
            self._wait(min(starting, default=time.monotonic() + _LOOK_S))
            for each in self._workers:
                if each.listen():
                    logger.warning("worker=%d pid=%d answers", each.number, each.pid)
                if each.process is not None and each.ended:
                    pid, status = each.pid, each.bury()
                    after = each.not_before - time.monotonic()
                    logger.warning(
                        "worker=%d pid=%d ended with status %d, starts again in %.1f s", each.number, pid, status, after
                    )
                elif each.process is None and time.monotonic() >= each.not_before:
                    if each.deaths >= _MOST_DEATHS and not any(other.ready for other in self._workers):
                        logger.error("worker=%d died %d times in a row, and no other answers", each.number, each.deaths)
                        return 1
                    each.start()
        return 0

    def _wait(self, until: float) -> None:
        """Until a worker says something or ends (its pipe does), or a signal comes; for a moment at most."""
        pipes = [each.pipe for each in self._workers if each.pipe is not None]
        timeout_s = min(_LOOK_S, max(0.0, until - time.monotonic()))
        ready, _, _ = select.select([self._woken, *pipes], [], [], timeout_s)
        if self._woken in ready:
            os.read(self._woken, 64)

    # -- stopping

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self._asked += 1

        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        wakes = signal.set_wakeup_fd(waking)
        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakes)
            os.close(self._woken)
            os.close(waking)

    def _stop(self) -> bool:
        """Whether all who answered have drained in time. Asked twice: at once."""
        asked = self._asked
        until = time.monotonic() + self._settings.stop_timeout_s + _SPARE_S
        alive = [each for each in self._workers if each.process is not None]
        for each in alive:
            each.ask_to_stop()
        while time.monotonic() < until and self._asked <= max(1, asked) and not all(each.ended for each in alive):
            self._wait(until)
            for each in alive:
                each.listen()
        drained = [each.kill() for each in alive]
        return all(drained)


class _Worker:
    """One process that serves. It gets a session of its own: Ctrl-C is for the parent, which stops all in order."""

    def __init__(self, number: int, command: list[str], descriptors: tuple[int, ...]) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.pipe: int | None = None  # what it says, until it ends
        self.ready = False
        self.keys = False
        self.deaths = 0  # in a row, each of them young
        self.not_before = 0.0
        self._command = command
        self._descriptors = descriptors
        self._started = 0.0
        self._said = b""

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def start(self) -> None:
        self.ready, self._said = False, b""
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=self._descriptors,
            start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.pipe = self.process.stdout.fileno()
        os.set_blocking(self.pipe, False)

    def listen(self) -> bool:
        """Whether it has just said that it answers."""
        if self.process is None or self.pipe is None:
            return False
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.pipe, 65536):
                self._said = (self._said + part)[:_LONGEST]
            self.pipe = None  # it is ending
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_LOOK_S)
        found = self._document()
        if self.ready or "pid" not in found:
            return False
        self.ready, self.keys = True, bool(found.get("keys"))
        return True

    def bury(self) -> int:
        """Its exit status, once it has ended; it may start again later."""
        assert self.process is not None
        status, now = self.process.wait(), time.monotonic()
        self._let_go()
        self.deaths = 1 if now - self._started > _SETTLED_S else self.deaths + 1
        self.not_before = now + min(_LATEST_S, _SOON_S * 2.0 ** (self.deaths - 1))
        return status

    def failure(self) -> Unavailable:
        """Why it could not start, in its own words."""
        found = self._document()
        if "code" in found:
            return Unavailable(str(found["message"]), code=str(found["code"]), hint=str(found["hint"]))
        status = None if self.process is None else self.process.returncode
        return Unavailable(
            f"Worker {self.number} ended with status {status} before it answered.",
            code="child_failed",
            hint="What it had to say is above.",
        )

    def ask_to_stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> bool:
        """The end, whatever it is doing; whether it had ended well by itself, or had not begun."""
        assert self.process is not None
        alive = self.process.poll() is None
        if alive:
            self.process.kill()
        drained = not alive and (self.process.wait() == 0 or not self.ready)
        self.process.wait()
        self._let_go()
        return drained

    def _document(self) -> dict[str, Any]:
        """The first line of what it said: its address, or why it has none."""
        line, end, _ = self._said.partition(b"\n")
        try:
            found = json.loads(line) if end else {}
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def _let_go(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        self.pipe = None
        self.ready = False

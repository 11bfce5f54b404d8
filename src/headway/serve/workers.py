"""Several server processes behind one port, for a PostgreSQL store: a small parent that answers nothing itself.

It loads no numpy, no web server and no torch. It binds the port once, without SO_REUSEPORT, and hands the listening
socket to its workers, which accept connections in turn. While one is replaced the others continue; while all are,
connections wait. Workers end when their parent ends for any reason. To stop, the parent sends SIGTERM to all workers,
and kills those that have not drained after `stop_timeout_s`.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from headway.client import Backoff, Child, ChildEvent, Children, exit_words
from headway.nouns import errors
from headway.serve.address import Address, bind, remove_address, write_address
from headway.serve.metrics import WorkerMetrics
from headway.settings import ServerSettings, load

logger = logging.getLogger("headway.serve")
_START_S = 60.0  # a worker that is not ready by then has failed
_BACKOFF = Backoff(first_s=0.1)
_MOST_DEATHS = 10  # in a row, while no worker is ready
_SPARE_S = 0.5


def server_settings(
    folder: Path, *, host: str | None = None, port: int | None = None, workers: int | None = None
) -> ServerSettings:
    """[server] of headway.toml, overridden by the command line; an error if the store allows one process only."""
    settings = load(folder)
    server = settings.server
    chosen = replace(
        server,
        host=server.host if host is None else host,
        port=server.port if port is None else port,
        workers=server.workers if workers is None else workers,
    )
    if chosen.workers > 1 and settings.store.embedded:
        raise errors.InvalidInput(
            f"{chosen.workers} workers need a PostgreSQL store; this project uses the embedded one.",
            code="one_worker",
            hint='Omit --workers, or set [store] url = "postgresql://…"; `headway data copy` moves a store there.',
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
        """`announce` gets the address, and whether there is any key."""
        self._folder = folder
        self._home = folder / ".headway"
        self._settings = settings
        self._announce = announce
        self._options = [] if log_requests else ["--no-request-log"]

    def run(self) -> int:
        listening = bind(self._settings)
        address = Address(host=self._settings.host, port=listening.getsockname()[1], pid=os.getpid())
        WorkerMetrics.remove(self._home / "run", address.port)
        try:
            # Workers keep `stop_timeout_s` themselves.
            with Children(stop_timeout_s=self._settings.stop_timeout_s + _SPARE_S, impatient=True) as children:
                try:
                    gave_up = self._serve(children, address, listening)
                finally:
                    listening.close()
                clean = children.stop()
        finally:
            remove_address(self._home)
            WorkerMetrics.remove(self._home / "run", address.port)
        return 1 if gave_up or not clean else 0

    def _serve(self, children: Children, address: Address, listening: socket.socket) -> bool:
        """Keep all workers alive until a stop is requested; True: none of them can be kept alive."""
        command = self._arguments(address, listening)
        for number in range(self._settings.workers):
            children.add(
                f"worker {number}",
                [*command, "--worker", str(number)],
                inherits=(listening.fileno(),),
                reports=True,
                backoff=_BACKOFF,
            )
        children.start(*children)
        if not children.wait_until_ready(*children, timeout_s=_START_S):
            return False
        write_address(self._home, address)
        self._announce(address, any(child.report.get("keys") for child in children))
        while not children.stop_requests:
            for event in children.wait():
                _log(event)
            if _hopeless(children):
                return True
            children.restart()
        return False

    def _arguments(self, address: Address, listening: socket.socket) -> list[str]:
        return [
            *("headway.serve", str(self._folder), *self._options, "--host", address.host, "--port", str(address.port)),
            *("--workers", str(self._settings.workers), "--socket", str(listening.fileno())),
        ]


def _log(event: ChildEvent) -> None:
    number = _number(event.child)
    if event.ready:
        logger.warning("worker=%s pid=%d answers", number, event.pid)
    if event.status is not None:
        how, after_s = exit_words(event.status), event.child.start_after - time.monotonic()
        logger.warning("worker=%s pid=%d ended (%s), starts again in %.1f s", number, event.pid, how, after_s)


def _hopeless(children: Children) -> bool:
    """Whether no worker is ready, and one that is due to start again has died too often."""
    if any(child.ready for child in children):
        return False
    for child in children:
        if not child.running and child.deaths >= _MOST_DEATHS and child.start_after <= time.monotonic():
            logger.error("worker=%s died %d times in a row, and no other answers", _number(child), child.deaths)
            return True
    return False


def _number(child: Child) -> str:
    return child.name.removeprefix("worker ")

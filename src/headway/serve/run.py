"""One server process: the port, the event loop, the signals, and the orderly stop.

The port is bound once and without SO_REUSEPORT, so that a second server fails with `port_in_use` instead of quietly
sharing it; granian serves the given socket. A worker gets it from the parent, which also
announces the address (`workers.py`). Stopping: no new work (503), event streams end, open requests are answered,
queued writes are committed; after `stop_timeout_s` the process ends anyway, and acknowledged writes are durable in
any case.

granian >= 2.5, < 3. Its public interface only takes an address, which it binds with SO_REUSEPORT: a second server would
share the port without a word, and workers could not be given one socket. So `_init_shared_socket` is replaced here, and
sets what it would set (`_ssp`, `_shd`, `_sfd`). Nothing else of Headway uses a private name of granian;
tests/architecture/test_private_names.py fails when these change.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian
from msgspec.structs import replace

from headway.nouns import errors
from headway.project import Project
from headway.serve.address import BACKLOG, Address, bind, remove_address, write_address
from headway.serve.app import application
from headway.serve.connections import capacity
from headway.serve.guard import RequestGuard
from headway.settings import ServerSettings

__all__ = ["Address", "Place", "bind", "serve"]

logger = logging.getLogger("headway.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One worker of several: the shared listening socket, its number, and how many there are."""

    socket: int  # a file descriptor
    worker: int
    workers: int


def serve(
    folder: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    announce: Callable[[Address, RequestGuard], None] | None = None,
    log_requests: bool = True,
    project: Project | None = None,
    place: Place | None = None,
) -> int:
    """Serve a project in this process until a signal stops it; returns the exit status.

    `announce` is called once the server answers, with its real address (port 0 asks for any free one). With `place`
    it is one of several workers: the port is bound already. Run as `python -m headway.client.parent PIPE headway.serve`
    it ends with its parent.
    """
    opened = Project(folder) if project is None else project
    settings = replace(
        opened.settings.server,
        host=opened.settings.server.host if host is None else host,
        port=opened.settings.server.port if port is None else port,
        workers=1 if place is None else place.workers,
    )
    try:
        listening = bind(settings) if place is None else socket.socket(fileno=place.socket)
    except errors.Unavailable:
        if project is None:
            opened.close()
        raise
    address = Address(host=settings.host, port=listening.getsockname()[1], pid=os.getpid())
    worker = None if place is None else place.worker
    guard = application(opened, replace(settings, port=address.port), log_requests=log_requests, worker=worker)
    return asyncio.run(_run(guard, listening, address, announce, alone=place is None))


async def _run(
    guard: RequestGuard,
    listening: socket.socket,
    address: Address,
    announce: Callable[[Address, RequestGuard], None] | None,
    *,
    alone: bool,
) -> int:
    server = guard.server
    loop = asyncio.get_running_loop()
    stop = _Stop(server.settings.stop_timeout_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    # Freeze the objects of the start: requests leave little garbage, and collecting every 700 objects costs 5%.
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    embedded = GranianServer(guard, listening, server.settings)
    serving = asyncio.ensure_future(embedded.serve())
    watching = asyncio.ensure_future(server.watch())
    if alone:
        write_address(server.project.home, address)
    if announce is not None:
        announce(address, guard)
    asked = asyncio.ensure_future(stop.asked.wait())
    await asyncio.wait({asked, serving}, return_when=asyncio.FIRST_COMPLETED)
    status = 0 if asked.done() else 1  # granian stopped by itself
    asked.cancel()
    stop.begin()
    drained = await server.drain(max(0.1, stop.left_s - 1.0))
    if not drained:
        logger.warning("stopped with %d requests unanswered", server.active)
    embedded.stop()  # type: ignore[no-untyped-call]  # granian's own
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(serving), max(0.1, stop.left_s - 0.5))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    if alone:
        remove_address(server.project.home)
    await asyncio.to_thread(server.close)
    stop.done()
    return status


class _Stop:
    """The first signal stops in order; the second, or running out of time, stops at once."""

    def __init__(self, limit_s: float) -> None:
        self.asked = asyncio.Event()
        self._limit_s = limit_s
        self._until = 0.0
        self._finished = threading.Event()

    def ask(self) -> None:
        if self.asked.is_set():
            os._exit(1)
        self.asked.set()

    def begin(self) -> None:
        self._until = time.monotonic() + self._limit_s
        threading.Thread(target=self._enforce, name="headway-stop", daemon=True).start()

    @property
    def left_s(self) -> float:
        return self._until - time.monotonic()

    def done(self) -> None:
        self._finished.set()

    def _enforce(self) -> None:
        if not self._finished.wait(self._limit_s):
            os._exit(1)  # a commit hangs: acknowledged requests are durable


class GranianServer(Granian):
    """Granian in our event loop, on a socket that is bound already."""

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        settings: ServerSettings,
        interface: Interfaces = Interfaces.RSGI,
    ) -> None:
        super().__init__(
            app,
            address=settings.host,
            port=listening.getsockname()[1],
            interface=interface,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(header_read_timeout=int(settings.read_timeout_s * 1000)),
            websockets=False,
            backlog=BACKLOG,
            backpressure=capacity(settings)[1],
            log_enabled=False,
        )
        self._listening = listening

    def _init_shared_socket(self) -> None:
        holder: Any = SocketHolder
        descriptor = self._listening.detach()  # granian closes it
        self._ssp = None
        self._shd = holder(descriptor, False, BACKLOG)
        self._sfd: Any = descriptor

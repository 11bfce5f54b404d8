"""A server from start to end: the port, the loop, the signals, the drain.

The port is bound here, once and without SO_REUSEPORT, so that a second server fails with `port_in_use` instead of
quietly sharing it; granian serves the socket that it is handed. Stopping: no new work (503), event streams return, what
is being answered is answered, what is queued is committed; after `stop_timeout_s` the process ends as it is, and what
was acknowledged is durable all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian

from headway.nouns.errors import InvalidInput, Unavailable
from headway.project import Project
from headway.serve.app import application
from headway.serve.guard import Guard
from headway.settings import ServerSettings

__all__ = ["Address", "bind", "serve"]

logger = logging.getLogger("headway.serve")
_BACKLOG = 1024
_PR_SET_PDEATHSIG = 1
_PARENT_GONE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def serve(
    folder: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    announce: Callable[[Address, Guard], None] | None = None,
    parent_pipe: int | None = None,
    log_requests: bool = True,
    project: Project | None = None,
) -> int:
    """Serve a project until a signal stops it; returns the exit status.

    `announce` is called once the server answers, with its real address (port 0 asks for any free one). With
    `parent_pipe`, the read end of a pipe that the parent holds open, it ends with its parent, however that ends.
    """
    if parent_pipe is not None:
        _die_with_parent()
    opened = Project(folder) if project is None else project
    settings = replace(
        opened.settings.server,
        host=opened.settings.server.host if host is None else host,
        port=opened.settings.server.port if port is None else port,
    )
    if settings.workers != 1:
        raise InvalidInput(
            f"workers = {settings.workers}, but one `headway serve` is one process.",
            code="one_worker",
            hint="Leave `workers` at 1: one process answers thousands of decisions a second. Several servers, each on "
            "a port of its own behind a balancer, share a PostgreSQL store.",
        )
    try:
        listening = bind(settings)
    except Unavailable:
        if project is None:
            opened.close()
        raise
    address = Address(host=settings.host, port=listening.getsockname()[1], pid=os.getpid())
    guard = application(opened, replace(settings, port=address.port), log_requests=log_requests)
    return asyncio.run(_run(guard, listening, address, announce, parent_pipe))


def bind(settings: ServerSettings) -> socket.socket:
    """The listening socket, or `port_in_use`."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait for old connections
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: a stream's first byte, 48 → 4 ms
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise Unavailable(
                f"Port {settings.port} of {settings.host} is in use.",
                code="port_in_use",
                hint="Another server runs there. Stop it, or choose another port with --port.",
            ) from error
        raise Unavailable(
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror or error}.",
            code="cannot_listen",
            hint="Use an address of this machine, and a port above 1023 or the right to bind it.",
        ) from error
    return listening


class _Embedded(Granian):
    """Granian in our loop, on our socket."""

    def __init__(
        self, app: Guard, listening: socket.socket, settings: ServerSettings, interface: Interfaces = Interfaces.RSGI
    ) -> None:
        super().__init__(
            app,
            address=settings.host,
            port=listening.getsockname()[1],
            interface=interface,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(header_read_timeout=int(settings.read_timeout_s * 1000)),
            websockets=False,
            backlog=_BACKLOG,
            backpressure=_BACKLOG,
            log_enabled=False,
        )
        self._listening = listening

    def _init_shared_socket(self) -> None:
        holder: Any = SocketHolder
        descriptor = self._listening.detach()  # granian closes it
        self._ssp = None
        self._shd = holder(descriptor, False, _BACKLOG)
        self._sfd: Any = descriptor


async def _run(
    guard: Guard,
    listening: socket.socket,
    address: Address,
    announce: Callable[[Address, Guard], None] | None,
    parent_pipe: int | None,
) -> int:
    server = guard.server
    loop = asyncio.get_running_loop()
    stop = _Stop(server.settings.stop_timeout_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    if parent_pipe is not None:
        os.set_blocking(parent_pipe, False)
        loop.add_reader(parent_pipe, _parent_may_be_gone, loop, parent_pipe, stop)
    # What is here now stays: requests leave little behind, and looking for it after every 700 objects costs 5%.
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    embedded = _Embedded(guard, listening, server.settings)
    serving = asyncio.ensure_future(embedded.serve())
    watching = asyncio.ensure_future(server.watch())
    file = server.project.home / "run" / "server.json"
    _write_address(file, address)
    if announce is not None:
        announce(address, guard)
    asked = asyncio.ensure_future(stop.asked.wait())
    await asyncio.wait({asked, serving}, return_when=asyncio.FIRST_COMPLETED)
    status = 0 if asked.done() else 1  # granian went away by itself
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
    _remove_address(file)
    await asyncio.to_thread(server.close)
    stop.done()
    return status


class _Stop:
    """Asked once: stop in order. Asked twice, or out of time: stop."""

    def __init__(self, limit_s: float) -> None:
        self.asked = asyncio.Event()
        self._limit_s = limit_s
        self._until = 0.0
        self._finished = threading.Event()

    def ask(self, limit_s: float | None = None) -> None:
        if self.asked.is_set():
            os._exit(1)
        if limit_s is not None:
            self._limit_s = limit_s
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
            os._exit(1)  # a stuck commit: what was acknowledged is durable


def _die_with_parent() -> None:
    """Linux: the kernel ends this process when the thread that started it ends. Elsewhere the pipe alone tells."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _parent_may_be_gone(loop: asyncio.AbstractEventLoop, pipe: int, stop: _Stop) -> None:
    with contextlib.suppress(BlockingIOError):
        if os.read(pipe, 64) == b"":
            loop.remove_reader(pipe)
            stop.ask(_PARENT_GONE_S)


def _write_address(file: Path, address: Address) -> None:
    """What runs here, for `up`, clients and people; whole or not at all."""
    body: dict[str, Any] = {"url": address.url, "host": address.host, "port": address.port, "pid": address.pid}
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = file.with_suffix(f".{address.pid}")
    scratch.write_text(json.dumps(body) + "\n", "utf-8")
    scratch.replace(file)


def _remove_address(file: Path) -> None:
    """Unless another server has taken the place meanwhile."""
    with contextlib.suppress(OSError, ValueError):
        if json.loads(file.read_text("utf-8"))["pid"] == os.getpid():
            file.unlink()

"""Granian in our event loop, on a socket that is bound already.

granian >= 2.5, < 3. Its public interface only takes an address, which it binds with SO_REUSEPORT: a second server would
share the port without a word, and workers could not be given one socket. So `_init_shared_socket` is replaced here, and
sets what it would set (`_ssp`, `_shd`, `_sfd`). Nothing else of Headway uses a private name of granian;
tests/architecture/test_private_names.py fails when these change.
"""

from __future__ import annotations

import socket
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian

from headway.serve.address import BACKLOG
from headway.serve.connections import capacity
from headway.settings import ServerSettings


class GranianServer(Granian):
    """A server for one application."""

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

"""The address of a server: the port, and the file with the address.

Imports neither the web server nor numpy: the parent of several workers needs only this.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.files import read_regular
from headway.nouns import errors
from headway.settings import ServerSettings

BACKLOG = 4096
FILE = Path("run", "server.json")  # below .headway


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def document(self) -> dict[str, Any]:
        return {"url": self.url, "host": self.host, "port": self.port, "pid": self.pid}


def bind(settings: ServerSettings) -> socket.socket:
    """The listening socket, or `port_in_use`: without SO_REUSEPORT, so that no second server can share it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart does not wait for old connections
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: a stream's first byte, 48 → 4 ms
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise errors.Unavailable(
                f"Port {settings.port} of {settings.host} is in use.",
                code="port_in_use",
                hint="Another server runs there. Stop it, or choose another port with --port.",
            ) from error
        raise errors.Unavailable(
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror or error}.",
            code="cannot_listen",
            hint="Use an address of this machine, and a port above 1023 or the right to bind it.",
        ) from error
    return listening


def write_address(home: Path, address: Address) -> None:
    """Write the address file for `up`, clients and people, atomically."""
    file = home / FILE
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = file.with_suffix(f".{address.pid}")
    scratch.write_text(json.dumps(address.document) + "\n", "utf-8")
    scratch.replace(file)


def remove_address(home: Path) -> None:
    """Remove the address file, unless another server has replaced it."""
    file = home / FILE
    with contextlib.suppress(OSError, ValueError):
        if json.loads(read_regular(file))["pid"] == os.getpid():
            file.unlink()

"""A server to attack: a child process over a new folder on loopback, and what an attacker does with raw sockets."""

from __future__ import annotations

import json
import re
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

__all__ = ["Target", "target"]

ASK = b'{"task":"route","text":"Summarise this page","candidates":["small","large"]}'


class Target:
    """A running server."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], port: int) -> None:
        self.folder = folder
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def token(self) -> dict[str, str]:
        return {"authorization": f"Bearer {(self.folder / '.headway' / 'token').read_text().strip()}"}

    def connect(self, sent: bytes = b"", *, receive_bytes: int = 0, source: str = "127.0.0.1") -> socket.socket:
        """A connection that has sent something; a small `receive_bytes` makes its reader slow at once."""
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(30)
        connection.bind((source, 0))
        connection.connect(("127.0.0.1", self.port))
        with suppress(OSError):
            connection.sendall(sent)
        return connection

    def asset(self) -> str:
        """The largest file that the server gives to anybody."""
        text = httpx.get(self.url + "/").text
        names = re.findall(r'/assets/[^"]+', text)
        sizes = {name: len(httpx.get(self.url + name).content) for name in names}
        return max(sizes, key=sizes.__getitem__, default="/openapi.json")

    def memory_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6


@contextmanager
def target(toml: str = "", *, fill: Callable[[Path], None] | None = None) -> Iterator[Target]:
    """Starts a server, and ends it; `fill` writes into the folder first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if toml:
            (folder / "headway.toml").write_text(toml)
        if fill is not None:
            fill(folder)
        command = [sys.executable, "-m", "headway.serve", str(folder), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield Target(folder, process, json.loads(process.stdout.readline())["port"])
        finally:
            process.terminate()
            process.stdout.close()
            process.wait(20)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

"""Real servers, each a child process on a free port.

served()                     a server over this test's folder: .url, .client (httpx), .process, .folder, .token
served("[server]\\n…")        with a headway.toml
server                       one for the whole module: for tests that need nothing special
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import headway
from headway.project import Project

JSON = {"content-type": "application/json"}
ASK: dict[str, Any] = {"task": "route", "text": "Summarise this page", "candidates": ["small", "large"]}


class Running:
    """A server process."""

    def __init__(self, folder: Path, *more: str, launcher: tuple[str, ...] = (), **options: Any) -> None:
        self.folder = folder
        self._store = {name: url for name, url in (options.get("env") or {}).items() if name == "HEADWAY_STORE_URL"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *launcher, "headway.serve", str(folder), "--port", "0", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            **options,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.stop())
        started = json.loads(line)
        self.url: str = started["url"]
        self.port: int = started["port"]
        self.client = httpx.Client(base_url=self.url, timeout=30)

    @property
    def token(self) -> dict[str, str]:
        """The project token, as headers."""
        return {"authorization": f"Bearer {(self.folder / '.headway' / 'token').read_text().strip()}"}

    def decide(self, **more: Any) -> httpx.Response:
        return self.client.post("/v1/decisions", json={**ASK, **more})

    def raw(self) -> socket.socket:
        """A raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def open(self) -> Project:
        """The same project, in this process."""
        return headway.open(self.folder, environ=self._store)

    def stored(self) -> int:
        with self.open() as project:
            return sum(project.query.counts(task).decisions for task in project.tasks())

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Stop the server; returns its stderr."""
        if hasattr(self, "client"):
            self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=20)
        return errors


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers over this test's folder, and ends them."""
    running: list[Running] = []

    def start(toml: str = "", *more: str, folder: Path = tmp_path, **options: Any) -> Running:
        if toml:
            (folder / "headway.toml").write_text(toml)
        running.append(Running(folder, *more, **options))
        return running[-1]

    yield start
    for process in running:
        process.stop()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests of a module, without declared tasks: they are created on first use."""
    more = {}
    if request.param == "postgresql":
        more = {"env": {**os.environ, "HEADWAY_STORE_URL": request.getfixturevalue("postgres").store()}}
    running = Running(tmp_path_factory.mktemp("served"), **more)
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors

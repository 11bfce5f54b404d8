"""`headway up` in a separate process, as a user starts it, and the ids of its child processes."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.loop.lock import holder

WAIT_S = 100.0


def until(probe: Callable[[], Any], what: str) -> Any:
    """Poll a probe; an error counts as not yet."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        with suppress(OSError, ValueError, http.client.HTTPException):
            value = probe()
            if value:
                return value
        time.sleep(0.02)
    raise AssertionError(f"waited {WAIT_S:.0f} s for {what}")


def alive(pid: int) -> bool:
    """Whether any thread of the process still runs: the first may have ended while others hold files and sockets."""
    try:
        tasks = [task.name for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(_state(pid, task) not in ("Z", "X", "") for task in tasks)


def _state(pid: int, task: str) -> str:
    try:
        return Path(f"/proc/{pid}/task/{task}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Up:
    """A running `headway up`, or another program that supervises the folder's project."""

    def __init__(
        self, folder: Path, *arguments: str, program: Sequence[str] = (), python: str = sys.executable, **process: Any
    ) -> None:
        self.folder = folder
        self.output = b""
        self.process = subprocess.Popen(
            [python, *(program or ("-m", "headway", "-C", str(folder), "up", *arguments))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **process,
        )

    # -- child processes

    @property
    def url(self) -> str:
        return str(self.server["url"])

    @property
    def port(self) -> int:
        return int(self.server["port"])

    @property
    def server(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / ".headway" / "run" / "server.json").read_text("utf-8")))

    def loop_pid(self) -> int:
        return int((holder(self.folder / ".headway" / "run" / "watch.lock") or {}).get("pid", 0))

    def children(self) -> list[int]:
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in task.read_text("ascii").split()]

    # -- output

    def printed(self) -> str:
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                break
            self.output += chunk
        return self.output.decode("utf-8", "replace")

    def wait_for(self, text: str) -> str:
        def seen() -> str:
            output = self.printed()
            if text not in output and self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before {text!r}: {self.printed()}")
            return output if text in output else ""

        return str(until(seen, repr(text)))

    def ready(self) -> Up:
        self.wait_for("Ctrl-C stops everything.")
        return self

    # -- requests

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"content-type": "application/json", **headers})
            answer = connection.getresponse()
            raw = answer.read()
            return answer.status, json.loads(raw) if raw[:1] in b"{[" and raw else raw, dict(answer.headers)
        finally:
            connection.close()

    def decide(self, text: str = "x", task: str = "route") -> str | None:
        """The id of a decision that the server acknowledged."""
        body = {"task": task, "text": text, "candidates": ["small", "large"]}
        try:
            status, answer, _ = self.ask("POST", "/v1/decisions", body)
            if status != 201:
                return None
            status, _, _ = self.ask("POST", f"/v1/decisions/{answer['id']}/signals", {"reward": 0.5})
        except (OSError, ValueError, http.client.HTTPException):
            return None
        return str(answer["id"])

    # -- stopping

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def up(folder: Path, *arguments: str, **how: Any) -> Iterator[Up]:
    running = Up(folder, *arguments, **how)
    try:
        yield running
    finally:
        running.close()


def can_bind(port: int) -> bool:
    """Whether the port is free: bound with a server's options, so that old connections do not matter."""
    with socket.socket() as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            mine.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def sockets(port: int) -> list[str]:
    """The users of the port, for the message of a failed test: address, state (0A listens) and owner."""
    owners = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            for link in (process / "fd").iterdir():
                owners[str(link.readlink())] = process.name
    users = []
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        _, local, remote, state, *rest = line.split()
        if int(local.rpartition(":")[2], 16) == port:
            users.append(f"{local}->{remote} state {state} of {owners.get(f'socket:[{rest[5]}]', 'nobody')}")
    return users

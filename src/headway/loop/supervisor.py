"""`headway up`: a small process that keeps a server and a loop alive, and a language worker where a task needs one, and
ends them with itself.

It loads no numpy, no web framework and no torch, holds `.headway/run/up.lock`, and shares nothing with its children but
a pipe that tells them when it is gone. A crash of the loop leaves the server alone, and the other way round; whoever
died is started again. Stopping: SIGTERM to all, five seconds, SIGKILL.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from headway.loop.child import Child
from headway.loop.lock import held
from headway.nouns.errors import Unavailable

__all__ = ["LOCK", "Supervisor"]

LOCK = Path("run", "up.lock")
_START_S = 60.0  # a server that has not answered by then will not
_STOP_S = 5.0
_LOOK_S = 0.1


class Supervisor:
    """The processes of one project.

    Supervisor(Path("."), say=print).run()      # until SIGTERM, SIGHUP or Ctrl-C; returns the exit status
    """

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None],
        ready: Callable[[str, str], None] = lambda _url, _link: None,
        host: str | None = None,
        port: int | None = None,
        workers: int | None = None,
        watch: bool = True,
        worker: bool = False,
        demo: bool = False,
    ) -> None:
        self.folder = folder
        self.home = folder / ".headway"
        self.url = ""
        self._say = say
        self._ready = ready  # told the address and a link that opens the page once
        self._server = [] if host is None else ["--host", host]
        self._server += [] if workers is None else ["--workers", str(workers)]
        self._port = port
        self._watch = watch
        self._worker = worker
        self._demo = demo
        self._stopping = False
        self._children: list[Child] = []

    def run(self) -> int:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(self.home / LOCK, "headway up") as note, self._signals():
            told, alive = os.pipe()  # children read `told`; it ends when `alive`, which only we hold, is closed
            try:
                self._serve(told)
                note({"url": self.url})
                self._tell_link(first=True)
                self._start_others(told)
                while not self._stopping:
                    self._look()
                    self._wait()
            finally:
                self._stop()
                os.close(alive)
                os.close(told)
        return 0

    # -- starting

    def _serve(self, pipe: int) -> None:
        """The server first: without it there is nothing to come up."""
        port = [] if self._port is None else ["--port", str(self._port)]
        server = self._child("server", ["headway.serve", str(self.folder), *self._server, *port], pipe)
        server.start(time.monotonic())
        until = time.monotonic() + _START_S
        while not self.url and not self._stopping:
            self._wait()
            self._heard(server, server.lines())
            if self.url:
                break
            if server.ended:
                raise server.failure()
            if time.monotonic() > until:
                raise Unavailable(
                    f"The server did not answer within {_START_S:.0f} s.",
                    code="child_failed",
                    hint=f"Its log: {self.home / 'run' / 'server.log'}",
                )
        if self.url:  # started again, it keeps its address
            parts = urlsplit(self.url)
            server.arguments = ["headway.serve", str(self.folder), *self._server, "--port", str(parts.port)]

    def _start_others(self, pipe: int) -> None:
        others = []
        if self._watch:
            nice = ["--nice", "0"] if self._demo else []  # whoever watches a demo waits for the loop
            others.append(self._child("loop", ["headway.loop", str(self.folder), *nice], pipe))
        if self._worker:
            others.append(self._child("worker", ["headway.loop.work", str(self.folder)], pipe))
        if self._demo:
            arguments = ["headway.loop.traffic", str(self.folder), "--url", self.url]
            others.append(self._child("demo", arguments, pipe))
        for each in others:
            if not self._stopping:
                each.start(time.monotonic())

    def _child(self, name: str, arguments: list[str], pipe: int) -> Child:
        child = Child(name, arguments, pipe=pipe, log=self.home / "run" / f"{name}.log")
        self._children.append(child)
        return child

    # -- running

    def _look(self) -> None:
        now = time.monotonic()
        for child in self._children:
            self._heard(child, child.lines())
            status = child.died(now)
            if status is not None:
                if child.name == "demo" and status == 0:
                    self._children.remove(child)  # it has told its story
                    return
                after = max(0.0, child.not_before - now)
                self._say(f"The {child.name} ended ({_how(status)}); it starts again in {after:.1f} s.")
            elif child.ended and now >= child.not_before:
                child.start(now)

    def _heard(self, child: Child, lines: list[str]) -> None:
        for line in lines:
            if child.name != "server":
                self._say(f"{child.name:6} {line}")
                continue
            address = _address(line)
            if address:
                again = bool(self.url)
                self.url = address
                if again:
                    self._say("The server answers again.")
                    self._tell_link(first=False)

    def _wait(self) -> None:
        """Until somebody says something, for a moment at most."""
        pipes = [each.process.stdout for each in self._children if each.process is not None and each.process.stdout]
        select.select(pipes, [], [], _LOOK_S)
        if any(each.process is not None and each.process.poll() is not None for each in self._children):
            time.sleep(_LOOK_S / 10)  # the pipe of a dead child is always readable: no busy waiting

    def _tell_link(self, *, first: bool) -> None:
        """The page needs a cookie; the server hands out a path that sets it, once."""
        if not self.url:
            return
        link = ""
        try:
            link = self.url + _link(self.url, (self.home / "token").read_text("ascii").strip())
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            self._say(f"The server gave no link for the page: {error}.")
        if first:
            self._ready(self.url, link)
        elif link:
            self._say(f"A new link for the page (works once): {link}")

    # -- stopping

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self._stopping = True

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self) -> None:
        until = time.monotonic() + _STOP_S
        for child in self._children:
            child.ask_to_stop()
        while time.monotonic() < until and not all(each.ended for each in self._children):
            for child in self._children:
                self._heard(child, [] if child.name == "server" else child.lines())
            time.sleep(_LOOK_S / 5)
        for child in self._children:
            child.kill()


def _address(line: str) -> str:
    try:
        found: Any = json.loads(line)
        return str(found["url"])
    except (ValueError, KeyError, TypeError):
        return ""


def _link(url: str, token: str) -> str:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        connection.request("POST", "/v1/links", body="{}", headers=headers)
        answer = connection.getresponse()
        body = answer.read(100_000)
        if answer.status != 201:
            raise ValueError(f"status {answer.status}")
        return str(json.loads(body)["path"])
    finally:
        connection.close()


def _how(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"status {status}"

"""`headway up`: a small process that keeps a server, a loop and the workers of kits alive, and ends them with itself.

It loads no numpy, no web framework and no torch, holds `.headway/run/up.lock`, and shares nothing with its children but
a pipe that closes when it ends. A crash of the loop does not affect the server, nor the other way round; a process that
dies is started again. Stopping: SIGTERM to all, five seconds, SIGKILL.
"""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.client import Child, ChildEvent, Children, exit_words
from headway.loop.address import page_link
from headway.loop.lock import held, holder

LOCK = Path("run", "up.lock")


def note_of_up(home: Path) -> dict[str, Any] | None:
    """What the running `headway up` of a project wrote about itself; None: it does not run."""
    return holder(home / LOCK)


_START_S = 60.0  # a server that is not ready by then has failed
_STOP_S = 5.0


class Supervisor:
    """The processes of one project.

        Supervisor(Path("."), say=print).run()      # until SIGTERM, SIGHUP or Ctrl-C; returns the exit status

    `workers` are modules by name, from the kits. Each runs as `python -m MODULE FOLDER --url URL`; one that ends with
    status 0 has finished, any other end starts it again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None],
        ready: Callable[[str, str], None] = lambda _url, _link: None,
        host: str | None = None,
        port: int | None = None,
        server_workers: int | None = None,
        watch: bool = True,
        nice: int | None = None,
        workers: Mapping[str, str] | None = None,
    ) -> None:
        """`ready` gets the address and a link that opens the page once; `nice` is the loop's priority."""
        self.folder = folder
        self.home = folder / ".headway"
        self.url = ""
        self._say = say
        self._ready = ready
        self._server_options = [
            *([] if host is None else ["--host", host]),
            *([] if server_workers is None else ["--workers", str(server_workers)]),
        ]
        self._port = port
        self._watch = watch
        self._nice = nice
        self._workers = dict(workers or {})

    def run(self) -> int:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with (
            held(self.home / LOCK, "headway up") as note,
            Children(stop_timeout_s=_STOP_S, say=self._relay, signals=signals) as children,
        ):
            server = children.add("server", self._server(self._port), log=self._log("server"), reports=True)
            children.start(server)
            if not children.wait_until_ready(server, timeout_s=_START_S):
                return 0
            self.url = str(server.report["url"])
            server.arguments = self._server(urlsplit(self.url).port)  # started again, it keeps its address
            note({"url": self.url, "workers": list(self._workers)})
            self._ready(self.url, self._page_link())
            self._start_others(children)
            while not children.stop_requests:
                for event in children.wait():
                    self._handle(event, children)
                children.restart()
        return 0

    # -- starting

    def _server(self, port: int | None) -> list[str]:
        return [
            *("headway.serve", str(self.folder), *self._server_options),
            *([] if port is None else ["--port", str(port)]),
        ]

    def _start_others(self, children: Children) -> None:
        if self._watch:
            nice = [] if self._nice is None else ["--nice", str(self._nice)]
            children.start(children.add("loop", ["headway.loop", str(self.folder), *nice], log=self._log("loop")))
        for name, module in self._workers.items():
            arguments = [module, str(self.folder), "--url", self.url]
            children.start(children.add(name, arguments, log=self._log(name)))

    def _log(self, name: str) -> Path:
        return self.home / "run" / f"{name}.log"

    # -- running

    def _handle(self, event: ChildEvent, children: Children) -> None:
        child = event.child
        if event.ready:
            self._say("The server answers again.")
            if link := self._page_link():
                self._say(f"A new link for the page (works once): {link}")
        if event.status is None:
            return
        if event.status == 0 and child.name in self._workers:
            children.remove(child)
            return
        after_s = max(0.0, child.start_after - time.monotonic())
        self._say(f"The {child.name} ended ({exit_words(event.status)}); it starts again in {after_s:.1f} s.")

    def _relay(self, child: Child, line: str) -> None:
        if child.name != "server":
            self._say(f"{child.name:6} {line}")

    def _page_link(self) -> str:
        """The page needs a cookie; the server hands out a path that sets it, once."""
        try:
            return page_link(self.home, self.url)
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            self._say(f"The server gave no link for the page: {error}.")
            return ""

"""The child processes of one parent: started, kept alive, and ended together.

    with Children(stop_timeout_s=5.0, say=print_line) as children:      # SIGTERM and Ctrl-C request a stop
        children.start(children.add("loop", ["headway.loop", "."], log=Path("loop.log")))
        while not children.stop_requests:
            for event in children.wait():
                ...                                                     # who is ready, who ended
            children.restart()

Leaving the block ends them: SIGTERM to all, `stop_timeout_s`, SIGKILL. If the parent is killed, they end with it:
the kernel and a pipe see to that (`parent.py`). Needs the main thread, like everything that handles signals.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headway.client.process import Backoff, Child

_LOOK_S = 0.5  # a signal, a line and an end all wake us; this is for what might be missed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEvent:
    """A child became ready, or ended with this status after `pid` had run."""

    child: Child
    pid: int
    ready: bool = False
    status: int | None = None


class Children:
    """Child processes that end with this one."""

    def __init__(
        self,
        *,
        stop_timeout_s: float,
        say: Callable[[Child, str], None] = lambda _child, _line: None,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        impatient: bool = False,
    ) -> None:
        """`say` gets each line that a child writes; `impatient`: a second stop request ends the wait."""
        self.stop_requests = 0
        self._children: list[Child] = []
        self._stop_timeout_s = stop_timeout_s
        self._say = say
        self._signals = tuple(signals)
        self._impatient = impatient

    def __enter__(self) -> Children:
        # Children read `_pipe`; it ends when `_alive`, which only we hold, is closed.
        self._pipe, self._alive = os.pipe()
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waking, False)
        self._wakeup_before = signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._asked) for number in self._signals}
        # The end of a child wakes us even if something that it started keeps its output open.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup_before)
            for descriptor in (self._alive, self._pipe, self._woken, self._waking):
                os.close(descriptor)

    def __iter__(self) -> Iterator[Child]:
        return iter(tuple(self._children))

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        self.stop_requests += 1

    # -- starting

    def add(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path | None = None,
        reports: bool = False,
        inherits: tuple[int, ...] = (),
        backoff: Backoff | None = None,
    ) -> Child:
        """A child that runs a module with arguments; see `Child`. It is not started yet."""
        child = Child(name, arguments, pipe=self._pipe, log=log, reports=reports, inherits=inherits, backoff=backoff)
        self._children.append(child)
        return child

    def remove(self, child: Child) -> None:
        """Do not start it again."""
        self._children.remove(child)

    def start(self, *children: Child) -> None:
        """Unless we are to stop already."""
        for child in children:
            if not self.stop_requests:
                child.start(time.monotonic())

    def restart(self) -> None:
        """Start those that ended and have waited long enough."""
        now = time.monotonic()
        self.start(*(child for child in self._children if not child.running and child.start_after <= now))

    def wait_until_ready(self, *children: Child, timeout_s: float) -> bool:
        """Whether all have reported; False: we are to stop. Raises `Unavailable` for one that ended or is too late."""
        until = time.monotonic() + timeout_s
        while not self.stop_requests:
            for event in self._wait(until):
                if event.status is not None and event.child in children:
                    raise event.child.failure()
            late = [child for child in children if not child.ready]
            if not late:
                return True
            if time.monotonic() >= until:
                raise late[0].too_late(timeout_s)
        return False

    # -- running

    def wait(self) -> list[ChildEvent]:
        """The next events; waits for them, at most until a child must be started again."""
        starts = [child.start_after for child in self._children if not child.running]
        return self._wait(min([time.monotonic() + _LOOK_S, *starts]))

    def _wait(self, until: float) -> list[ChildEvent]:
        outputs = [child.output for child in self._children if child.output is not None]
        timeout_s = min(_LOOK_S, max(0.0, until - time.monotonic()))
        ready, _, _ = select.select([self._woken, *outputs], [], [], timeout_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        return [event for child in tuple(self._children) if (event := self._look(child))]

    def _look(self, child: Child) -> ChildEvent | None:
        if not child.running:
            return None
        pid, was_ready, ended = child.pid, child.ready, child.ended
        for line in child.lines():  # read after `ended`, so that the last lines of a dead child are not lost
            self._say(child, line)
        ready = child.ready and not was_ready
        if ended:
            return ChildEvent(child=child, pid=pid, ready=ready, status=child.bury(time.monotonic()))
        return ChildEvent(child=child, pid=pid, ready=True) if ready else None

    # -- stopping

    def stop(self) -> bool:
        """End all children; whether each that was ready ended by itself with status 0, in time."""
        requests = max(1, self.stop_requests)
        until = time.monotonic() + self._stop_timeout_s
        running = [child for child in self._children if child.running]
        were_ready = [child for child in running if child.ready]
        for child in running:
            child.ask_to_stop()
        while any(child.running for child in running) and time.monotonic() < until:
            if self._impatient and self.stop_requests > requests:
                break
            self._wait(until)
        clean = not any(child.running for child in running) and all(child.status == 0 for child in were_ready)
        for child in running:
            child.kill()
        return clean

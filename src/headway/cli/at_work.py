"""A command that is silent for long says on standard error that it works, and how far it is.

work = AtWork("headway learn", sys.stderr)
work.report("steps", 400, 4000)         # learn  steps ━━━────────────── 400 of 4,000, 12 s
work.make_room()                        # before something else is printed
work.end()

On a terminal, after two seconds, one line that is drawn again and removed; elsewhere a plain line every five seconds.
"""

from __future__ import annotations

import shutil
import threading
import time
from typing import TextIO

_SILENT_S = 2.0  # on a terminal
_EVERY_S = 5.0  # before the first plain line and between them
_TICK_S = 0.2
_BAR = 24  # characters


class AtWork:
    """Watches one command from a thread of its own."""

    def __init__(self, command: str, err: TextIO, silent_s: float | None = None) -> None:
        self._command = command.removeprefix("headway ")
        self._err, self._terminal = err, err.isatty()
        self._silent_s = (_SILENT_S if self._terminal else _EVERY_S) if silent_s is None else silent_s
        self._stage: tuple[str, int, int | None] = ("", 0, None)
        self._began = self._last = time.monotonic()
        self._drawn = False
        self._lock, self._done = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="at-work", daemon=True)
        self._thread.start()

    def report(self, what: str, done: int, of: int | None) -> None:
        """The latest stage and how far it is; cheap enough for every step."""
        self._stage = (what, done, of)

    def make_room(self) -> None:
        """Remove the bar: something else is printed."""
        with self._lock:
            self._last = time.monotonic()
            if self._drawn:
                self._drawn = False
                self._err.write("\r\x1b[2K")
                self._err.flush()

    def end(self) -> None:
        self._done.set()
        self._thread.join()
        self.make_room()

    def _watch(self) -> None:
        while not self._done.wait(_TICK_S):
            with self._lock:
                now = time.monotonic()
                if now - self._last < self._silent_s:
                    continue
                if self._terminal:
                    width = shutil.get_terminal_size().columns - 1
                    self._drawn = True
                    self._err.write(f"\r\x1b[2K{self._text(now, bar=True)[:width]}")
                else:
                    self._last = now + _EVERY_S - self._silent_s
                    self._err.write(f"{self._text(now)}\n")
                self._err.flush()

    def _text(self, now: float, *, bar: bool = False) -> str:
        """What is worked at, as far as it was reported, and for how long."""
        what, done, of = self._stage
        filled = min(_BAR, _BAR * done // of) if of else 0
        drawn = f"{'━' * filled}{'─' * (_BAR - filled)} " if bar and of else ""
        far = f"  {what} {drawn}{done:,}{f' of {of:,}' if of else ''}," if what else " is working,"
        return f"{self._command}{far} {now - self._began:.0f} s"

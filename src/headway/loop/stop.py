"""Signals that stop the loop, as an exception."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


class Stopped(BaseException):
    """The loop was asked to stop. Like a kill, it may come anywhere; unfinished work does not count."""


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """SIGTERM and Ctrl-C raise `Stopped`, once; other threads than the main one see no signals.

    An exception out of a signal can be lost: Python drops it in a destructor, and C code may clear it. So the work
    calls what this yields now and then; it raises `Stopped` if a signal has come.
    """
    asked = False

    def check() -> None:
        if asked:
            raise Stopped

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield check
    except Stopped:
        raise
    else:
        for number, handler in before.items():
            signal.signal(number, handler)

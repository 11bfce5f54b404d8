"""Signals that stop the loop, as an exception."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["Stopped", "stoppable"]


class Stopped(BaseException):
    """The loop was asked to stop. Like a kill, it may come anywhere; unfinished work does not count."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and Ctrl-C raise `Stopped`, once; other threads than the main one see no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except Stopped:
        raise
    else:
        for number, handler in before.items():
            signal.signal(number, handler)

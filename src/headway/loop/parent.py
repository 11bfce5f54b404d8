"""A child that ends with its parent, however that ends: no orphan keeps a lock, a port or a core.

Linux: the kernel sends SIGKILL when the parent dies. Everywhere: a thread reads from a pipe whose other end only the
parent holds; its end of file means the same, also where the parent died before the child could ask the kernel.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

__all__ = ["end_with_parent"]

_PR_SET_PDEATHSIG = 1


def end_with_parent(pipe: int) -> None:
    """From now on this process ends when the other end of `pipe` is closed or its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_wait, args=(pipe,), name="headway-parent", daemon=True).start()


def _wait(pipe: int) -> None:
    while os.read(pipe, 64):
        pass
    os._exit(1)  # what was acknowledged is durable; what was not is done again

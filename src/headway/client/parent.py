"""The child's side of `process.py`: a program that ends with its parent.

    python -m headway.client.parent PIPE MODULE ARGUMENTS…      # runs MODULE as a program, bound to its parent

No orphan keeps a lock, a port or a core. On Linux the kernel sends SIGKILL when the parent dies. Everywhere a thread
watches a pipe whose other end only the parent holds: end of file means that the parent ended, even if it died before
the child could ask the kernel. Both are set up before MODULE is loaded, so no child starts work for a dead parent.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import select
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def end_with_parent(pipe: int) -> None:
    """From now on this process ends when the other end of `pipe` is closed or its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if _closed(pipe, 0.0):
        os._exit(1)
    threading.Thread(target=_wait, args=(pipe,), name="headway-parent", daemon=True).start()


def _wait(pipe: int) -> None:
    while not _closed(pipe, None):
        pass
    os._exit(1)  # acknowledged work is durable; the rest is repeated


def _closed(pipe: int, timeout_s: float | None) -> bool:
    """Whether the other end is closed. All children share the pipe, and any of them may have made it non-blocking."""
    if not select.select([pipe], [], [], timeout_s)[0]:
        return False
    try:
        return os.read(pipe, 64) == b""
    except BlockingIOError:
        return False


def main() -> None:
    pipe, module, *arguments = sys.argv[1:]
    end_with_parent(int(pipe))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

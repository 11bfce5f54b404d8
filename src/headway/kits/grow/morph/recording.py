"""Work for a GPU that is recorded once and replayed: a CUDA graph.

    again = recorded(work)           # `work` is recorded, not done
    again()                          # done

Recording costs the CPU what issuing the work once costs; a replay costs it next to nothing. The work must read and
write tensors that exist already, in place, and may not look at their values on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["recorded"]


class _Tape:
    """The last recording and the memory that recordings share: it is freed when nobody holds a recording of it."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.pool = torch.cuda.graph_pool_handle()
        self.last: torch.cuda.CUDAGraph | None = None


_TAPES: dict[int, _Tape] = {}


def recorded(work: Callable[[], None]) -> Callable[[], None]:
    """A function that does `work` on the GPU; valid until the next recording on that GPU."""
    device = torch.cuda.current_device()
    if device not in _TAPES:
        _TAPES[device] = _Tape()
    tape, graph = _TAPES[device], torch.cuda.CUDAGraph()
    tape.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(tape.stream):
        graph.capture_begin(pool=tape.pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    tape.last = graph
    torch.cuda.current_stream().wait_stream(tape.stream)
    return graph.replay

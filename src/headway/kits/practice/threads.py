"""One thread for small products.

    with one_thread():
        practise(…)

A BLAS library spreads every product over all cores. For networks of our size the threads wait for one another longer
than they compute; on a busy machine by far: an update of a 256-64-64 network took 57 ms with two threads on two loaded
cores and 1 ms with one. OpenBLAS (what numpy's wheels bring) is told so while the block lasts; another library is left
as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["one_thread"]

_NAMES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads")  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS with one thread, as it was before afterwards. It counts for the whole process."""
    found = _openblas()
    if found is None:
        yield
        return
    get, put = found
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """The library's own switch, if numpy loaded OpenBLAS from its wheel."""
    root = Path(np.__file__).parent
    for folder in (root.with_name("numpy.libs"), root / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for name in _NAMES:
                try:
                    return getattr(library, name.format("get")), getattr(library, name.format("set"))
                except AttributeError:
                    continue
    return None

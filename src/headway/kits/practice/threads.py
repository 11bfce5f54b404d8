"""Runs BLAS with one thread for small products.

    with one_thread():
        practise_in(…)

A BLAS library spreads every product over all cores. For small networks the threads wait for one another longer than
they compute, by far on a busy machine: an update of a 256-64-64 network took 57 ms with two threads on two loaded
cores and 1 ms with one. OpenBLAS (in numpy's wheels) is limited to one thread inside the block; another library is
unchanged.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

SMALL = 128
_NAMES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads")  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block. This applies to the whole process."""
    switches = _openblas()
    if switches is None:
        yield
        return
    get, put = switches
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)


@contextmanager
def torch_threads(width: int) -> Iterator[None]:
    """One thread of torch for networks of at most this width, 0 for wide ones: SMALL is where one is faster."""
    import torch

    before = torch.get_num_threads()
    if 0 < width <= SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """The library's getter and setter, if numpy loaded OpenBLAS from its wheel."""
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

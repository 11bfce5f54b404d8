"""Memory for a model: looked at before its weights are read, and named where it has run out.

check_room(folder, bytes_each=4)         # Unavailable, code no_memory, if its weights are larger than what is free
if out_of_memory(error): raise no_memory("The training", hint) from error

A system that runs out of memory usually kills the process instead of telling it, so we look first.
"""

from __future__ import annotations

import json
import os
from math import prod
from pathlib import Path

from headway.files import open_regular
from headway.loop import machine
from headway.nouns import errors

_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "bad allocation")
_LARGEST_HEADER = 100_000_000


def check_room(folder: Path, *, bytes_each: int, free_mb: float | None = None) -> None:
    """Raise if the weights of a folder, in a format of `bytes_each`, need more memory than is available."""
    free = machine(folder).free_memory_mb if free_mb is None else free_mb
    needed = weights_in(folder) * bytes_each / 1e6
    if free is not None and needed > free:
        raise errors.Unavailable(
            f"The weights in {str(folder)!r} need {needed:,.0f} MB of memory; {free:,.0f} MB are available.",
            code="no_memory",
            hint="Close other programs, or use a smaller model.",
        )


def weights_in(folder: Path) -> int:
    """The number of weights, from the headers of the files; a file that cannot be read counts as none."""
    count = 0
    for path in folder.glob("*.safetensors"):
        try:
            with os.fdopen(open_regular(path, follow=True), "rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(size, _LARGEST_HEADER)))
            count += sum(prod(about["shape"]) for name, about in header.items() if name != "__metadata__")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # whoever loads it says what is wrong
    return count


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, torch or OpenVINO means that memory has run out."""
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in _WORDS)


def no_memory(what: str, hint: str) -> errors.Unavailable:
    return errors.Unavailable(f"{what} has run out of memory.", code="no_memory", hint=hint)

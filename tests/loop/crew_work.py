"""Functions for the workers of a crew in tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from headway.nouns.errors import InvalidInput


def square(shard: int) -> int:
    return shard * shard


def process(shard: int) -> int:
    return os.getpid()


def dies_first(shard: tuple[str, int]) -> int:
    """Ends its worker the first time that any worker gets this shard."""
    folder, number = shard
    mark = Path(folder, f"{number}")
    if number % 3 == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def always_dies(shard: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuses(shard: int) -> int:
    if shard == 2:
        raise InvalidInput("The shard 2 is bad.", code="bad_shard", hint="Use another.")
    return shard


def breaks(shard: int) -> float:
    return 1 / shard


def waits(shard: str) -> None:
    """Says that it is there, and never ends."""
    Path(shard).write_text(str(os.getpid()))
    signal.pause()

"""Logged decisions of the contracts' small worlds, whose best arm is known."""

from headway.testing.small_worlds import (
    ARMS,
    CANDIDATES,
    WORLDS,
    MemoryLog,
    by_category,
    by_numbers,
    by_text,
    identity,
    row,
)  # fmt: skip

__all__ = [
    "ARMS", "CANDIDATES", "WORLDS", "MemoryLog", "by_category", "by_numbers", "by_text", "identity", "row",
]  # fmt: skip

"""What stands in a text where something was taken out: `[redacted:api-key]`.

The mark is the record: a stored text says by itself where something stood and of what kind. Whoever learns from texts
leaves these spans out (`spans` for token masks, `without` for encoders).
"""

from __future__ import annotations

import re

__all__ = ["MARK", "mark", "spans", "without"]

MARK = "[redacted:"
_MARKED = re.compile(r"\[redacted:([a-z]+(?:-[a-z]+)*)\]")


def mark(kind: str) -> str:
    """The mark that replaces something of this kind."""
    return f"{MARK}{kind}]"


def spans(text: str) -> list[tuple[int, int, str]]:
    """(start, end, kind) of every mark in a text: what must not be learned from."""
    if MARK not in text:
        return []
    return [(found.start(), found.end(), found[1]) for found in _MARKED.finditer(text)]


def without(text: str) -> str:
    """The text with a space in the place of every mark."""
    return _MARKED.sub(" ", text) if MARK in text else text

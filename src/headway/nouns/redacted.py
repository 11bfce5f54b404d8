"""Redaction marks in a text: `[redacted:api-key]`.

The mark shows where something was removed and of what kind. Learning from texts skips these spans (`spans` for token
masks, `without` for encoders).
"""

from __future__ import annotations

import re

MARK = "[redacted:"
_MARKED = re.compile(r"\[redacted:([a-z]+(?:-[a-z]+)*)\]")


def mark(kind: str) -> str:
    """The mark that replaces a secret of this kind."""
    return f"{MARK}{kind}]"


def spans(text: str) -> list[tuple[int, int, str]]:
    """(start, end, kind) of every mark in a text: the spans not to learn from."""
    if MARK not in text:
        return []
    return [(match.start(), match.end(), match[1]) for match in _MARKED.finditer(text)]


def without(text: str) -> str:
    """The text with a space for every mark."""
    return _MARKED.sub(" ", text) if MARK in text else text

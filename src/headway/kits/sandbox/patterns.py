"""Users' patterns, matched by RE2 in time linear in the text, whatever the pattern."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from headway.nouns import errors

LONGEST = 500
_MOST = 65_536  # characters that are matched
_MEMORY = 8 << 20


def check(pattern: str) -> None:
    """Refuse an invalid pattern."""
    _compiled(pattern)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere, case-insensitive and line by line."""
    readable = text[:_MOST].encode("utf-8", "replace").decode()
    return _compiled(pattern).search(readable) is not None


@lru_cache(256)
def _compiled(pattern: str) -> Any:
    try:
        if len(pattern) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST} characters")
        options = re2.Options()
        options.log_errors, options.max_mem = False, _MEMORY
        return re2.compile(f"(?im){pattern}", options)
    except (ValueError, TypeError, re2.error) as error:
        said = error.args[0] if error.args else error
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise errors.InvalidInput(
            f"The pattern {pattern!r:.100} cannot be used: {reason}.",
            code="bad_check",
            hint="It is read by RE2: no lookaround, no back references, \\z for the end of the text.",
        ) from error

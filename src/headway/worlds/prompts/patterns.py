"""Patterns that cannot run away: a repetition without end inside another one is refused."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from headway.nouns.errors import InvalidInput

__all__ = ["compiled"]

LONGEST = 500
_MANY = 16  # a repetition of more than this counts as one without end


@lru_cache(256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, case-insensitive and line by line."""
    try:
        if len(pattern) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST} characters")
        tree = re._parser.parse(pattern)  # type: ignore[attr-defined]  # no public parser; any failure refuses
        if _nested(tree, inside=False):
            raise ValueError("it repeats a repetition")
        return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except (ValueError, re.error, RecursionError, OverflowError) as error:
        raise InvalidInput(
            f"The pattern {pattern!r:.100} cannot be used: {error}.", code="bad_check", hint="Write it more simply."
        ) from error


def _nested(tree: Any, *, inside: bool) -> bool:
    for name, value in tree:
        repeats = str(name) in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
        endless = repeats and int(value[1]) > _MANY
        if endless and inside:
            return True
        for part in _parts(value):
            if _nested(part, inside=inside or endless):
                return True
    return False


def _parts(value: Any) -> list[Any]:
    """The patterns inside an element: wherever its description holds one."""
    if isinstance(value, re._parser.SubPattern):  # type: ignore[attr-defined]
        return [value]
    if isinstance(value, tuple | list):
        return [found for each in value for found in _parts(each)]
    return []

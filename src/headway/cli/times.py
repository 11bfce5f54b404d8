"""Times and durations as people write them."""

from __future__ import annotations

from headway.nouns import errors, parse_rfc3339

_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


def parse_time(text: str) -> float:
    """An ISO time as seconds since 1970; a day or a time without a zone is UTC."""
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise errors.InvalidInput(
            f"{text[:60]!r} is not a time.", code="bad_time", hint="Write 2026-06-01 or 2026-06-01T12:00:00Z."
        ) from None


def parse_duration(text: str) -> float:
    """12h, 90d or 4w as seconds."""
    count, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (count.isascii() and count.isdigit()) or not 0 < int(count) < 10_000:
        raise errors.InvalidInput(f"{text[:40]!r} is not a duration.", code="bad_time", hint="Write 12h, 90d or 4w.")
    return int(count) * _UNITS[unit]

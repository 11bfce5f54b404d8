"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

from headway.nouns.errors import InvalidInput

__all__ = ["moment"]


def moment(text: str) -> float:
    """An ISO time as seconds since 1970; a day or a time without a zone is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text[:60]!r} is not a time.", code="bad_time", hint="Write 2026-06-01 or 2026-06-01T12:00:00Z."
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

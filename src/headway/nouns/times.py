"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["rfc3339"]


def rfc3339(at: float) -> str:
    """Seconds since 1970 as UTC with milliseconds, for example 2026-06-01T12:00:00.000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Times as RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["moment"]


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

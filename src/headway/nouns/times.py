"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(at: float) -> str:
    """Seconds since 1970 as UTC with milliseconds, for example 2026-06-01T12:00:00.000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> float:
    """Seconds since 1970 from such a text, or from a date; without a zone it is UTC. ValueError if it is neither."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def day(at: float) -> str:
    """1 June 2026, in UTC."""
    date = datetime.fromtimestamp(at, UTC)
    return f"{date.day} {date:%B %Y}"


def moment(at: float) -> str:
    """1 June 2026, 12:00 UTC."""
    return f"{day(at)}, {datetime.fromtimestamp(at, UTC):%H:%M} UTC"


def lasting(seconds: float) -> str:
    """40 s, 6 h or 2.5 days: a duration in its largest unit, to two digits."""
    for unit, size, least in (("days", 86_400.0, 2.0), ("h", 3600.0, 1.5), ("min", 60.0, 2.0)):
        if seconds >= least * size:
            count = seconds / size
            return (f"{count:.1f}" if count < 10.0 else f"{count:.0f}").removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"

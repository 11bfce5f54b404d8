"""A check with a limit, as a Diagnostic that blocks beyond it."""

from __future__ import annotations

from headway.nouns import Diagnostic


def at_least(name: str, value: float, limit: float, message: str, cure: str) -> Diagnostic:
    """A check that blocks below the limit."""
    ok = value >= limit
    return Diagnostic(
        name=name,
        value=float(value),
        limit=float(limit),
        ok=ok,
        blocks=True,
        message=f"{message} (at least {limit:,g} needed)" if not ok else message,
        cure="" if ok else cure,
    )


def at_most(name: str, value: float, limit: float, message: str, cure: str) -> Diagnostic:
    """A check that blocks above the limit."""
    ok = value <= limit
    return Diagnostic(
        name=name, value=float(value), limit=float(limit), ok=ok, blocks=True, message=message, cure="" if ok else cure
    )

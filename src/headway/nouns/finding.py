"""One result of `headway doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report. `ok` None: information, not a problem."""

    name: str
    ok: bool | None
    found: str
    cure: str = ""

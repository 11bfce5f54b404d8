"""One result of `headway doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check; `ok` is null where it only informs."""

    name: str
    found: str
    ok: bool | None
    cure: str = ""

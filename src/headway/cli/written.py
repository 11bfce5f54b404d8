"""How values are written for people: text, numbers, shares, intervals, sizes and times.

Every command and renderer uses these functions, so that a value looks the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

NONE = "–"  # where there is no value

_SEQUENCES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC: titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)"  # DCS, SOS, PM, APC
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colour, cursor
    r"|\x1b[ -/]*[0-~]"
)
# C0 except tab and newline, DEL, C1, and the marks that change the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: object, *, one_line: bool = True) -> str:
    """Text without escape sequences and control characters."""
    plain = _CONTROLS.sub("", _SEQUENCES.sub("", str(text)))
    return " ".join(plain.split()) if one_line else plain


def number(value: object, digits: int = 3) -> str:
    """1,234 or 0.125; a dash for None and NaN; anything else as clean text."""
    if value is None or (isinstance(value, float) and value != value):
        return NONE
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else clean(value)


def signed(value: float, digits: int = 3) -> str:
    """+0.125 or -0.125."""
    return f"{value:+.{digits}f}"


def interval(low: float, high: float, digits: int = 3) -> str:
    """[-0.012, +0.070]."""
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def percent(share: float | None, digits: int = 0) -> str:
    """0.25 as 25%; an empty text for None."""
    return "" if share is None else f"{share:.{digits}%}"


def counts(values: Mapping[str, int]) -> str:
    """{"real": 1200, "mined": 3} as "1,200 real, 3 mined"."""
    return ", ".join(f"{count:,} {name}" for name, count in values.items())


def day(at: float | None) -> str:
    """2026-06-01, in UTC; a dash for None."""
    return NONE if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def minute(at: float | None) -> str | None:
    """2026-06-01 12:00, in UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def short(text: str, limit: int = 40) -> str:
    """Text cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

"""Counted nouns, and measurements in a text: found to detect leaks of an outcome, and masked if they leak.

plural(1, "decision")          # "1 decision"; plural(2, "policy", "policies") is "2 policies"
spoken("delta=-0.2740")        # ((-0.274, 0.00005),): the value, and half a unit of its last digit
masked("delta=-0.2740")        # "delta=#"
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![\w.])[+\-−]?\d{1,12}(?:\.\d{1,12})?%?(?!\w|\.\d)")
_LONGEST, _MOST = 20_000, 64


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun in the right form."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def spoken(text: str) -> tuple[tuple[float, float], ...]:
    """Measurements in a text: numbers with two decimals, a percent sign, or a sign and a decimal. 3 and 10 are not."""
    measurements = []
    for match in _NUMBER.finditer(text[:_LONGEST]):
        value = _measured(match)
        if value is not None:
            measurements.append(value)
    return tuple(measurements[:_MOST])


def masked(text: str) -> str:
    """The text with `#` in place of every measurement."""
    return _NUMBER.sub(lambda match: match[0] if _measured(match) is None else "#", text)


def _measured(match: re.Match[str]) -> tuple[float, float] | None:
    word = match[0].replace("−", "-")
    percent = word.endswith("%")
    word = word.removesuffix("%")
    decimals = len(word.partition(".")[2])
    if decimals + 2 * percent + (word[0] in "+-") < 2:
        return None
    scale = 0.01 if percent else 1.0
    return float(word) * scale, 0.5 * 10.0**-decimals * scale * (1.0 + 1e-9)

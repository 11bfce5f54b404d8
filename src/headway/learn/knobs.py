"""Knobs of a family, checked before anything is learned with them.

checked("cql", knobs, KNOBS, {"gamma": (0.0, 0.9999), "steps": (1, 10**8)}, optional=("steps",))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.nouns.errors import InvalidSettings, did_you_mean

__all__ = ["checked"]

_DEEPEST, _WIDEST = 6, 4096


def checked(
    family: str,
    knobs: Mapping[str, Any],
    known: Mapping[str, Any],
    bounds: Mapping[str, tuple[float, float]],
    *,
    optional: Sequence[str] = (),
) -> dict[str, Any]:
    """All knobs with their defaults; a name, number, width or cost that cannot be used is InvalidSettings."""
    for key in knobs:
        if key not in known:
            raise InvalidSettings(f"{family} has no knob {key!r}.", code="unknown_key", hint=did_you_mean(key, known))
    wanted = {**known, **knobs}
    for key, (low, high) in bounds.items():
        value = wanted[key]
        if value is None and key in optional:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise InvalidSettings(
                f"The knob {key} is {value!r}.", code="bad_knob", hint=f"Use a number from {low:g} to {high:g}."
            )
    if "hidden" in known:
        wanted["hidden"] = _widths(wanted["hidden"])
    prices = [wanted["cost_weight"], *dict(wanted["costs"] or {}).values()]
    if not all(isinstance(each, int | float) and np.isfinite(each) for each in prices):
        raise InvalidSettings(f"The costs are {wanted['costs']!r}.", code="bad_knob", hint="Use numbers.")
    return wanted


def _widths(hidden: Any) -> tuple[int, ...]:
    if (
        not isinstance(hidden, list | tuple)
        or not 1 <= len(hidden) <= _DEEPEST
        or not all(isinstance(each, int) and 1 <= each <= _WIDEST for each in hidden)
    ):
        raise InvalidSettings(
            f"The knob hidden is {hidden!r}.", code="bad_knob", hint="Use one to six widths, for example [64, 64]."
        )
    return tuple(hidden)

"""Checks the knobs of a family before learning.

checked("cql", knobs, CQLKnobs)      # all of them, with their defaults
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.nouns import InvalidSettings, did_you_mean, knobs_of

_DEEPEST, _WIDEST = 6, 4096


def checked(family: str, knobs: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """All knobs with their defaults; an invalid name, number, width or cost raises InvalidSettings.

    `kind` is the dataclass that declares them (`nouns.knob`). None is allowed where it is the default.
    """
    declared = knobs_of(kind)
    known = {knob.name: knob.default for knob in declared}
    for key in knobs:
        if key not in known:
            raise InvalidSettings(f"{family} has no knob {key!r}.", code="unknown_key", hint=did_you_mean(key, known))
    wanted = {**known, **knobs}
    for knob in declared:
        low, high, value = knob.low, knob.high, wanted[knob.name]
        if low is None or high is None or (value is None and knob.default is None):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise InvalidSettings(
                f"The knob {knob.name} is {value!r}.", code="bad_knob", hint=f"Use a number from {low:g} to {high:g}."
            )
    if "hidden" in known:
        wanted["hidden"] = _widths(wanted["hidden"])
    prices = [wanted["cost_weight"], *dict(wanted["costs"] or {}).values()]
    if not all(isinstance(price, int | float) and np.isfinite(price) for price in prices):
        raise InvalidSettings(f"The costs are {wanted['costs']!r}.", code="bad_knob", hint="Use numbers.")
    return wanted


def _widths(hidden: Any) -> tuple[int, ...]:
    if (
        not isinstance(hidden, list | tuple)
        or not 1 <= len(hidden) <= _DEEPEST
        or not all(isinstance(width, int) and 1 <= width <= _WIDEST for width in hidden)
    ):
        raise InvalidSettings(
            f"The knob hidden is {hidden!r}.", code="bad_knob", hint="Use one to six widths, for example [64, 64]."
        )
    return tuple(hidden)

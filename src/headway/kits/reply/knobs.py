"""The knobs of the family language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.nouns.errors import InvalidSettings, did_you_mean
from headway.nouns.knob import knob, knobs_of

__all__ = ["LanguageKnobs", "knobs_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageKnobs:
    """The knobs of the family `language` (`headway learn --set`)."""

    r: int = knob(16, "The rank of the adapter's matrices.", low=1, high=1024)


def knobs_from(values: Mapping[str, Any]) -> LanguageKnobs:
    """The knobs with these values; an unknown name or a number out of bounds is an InvalidSettings."""
    known = {one.name: one for one in knobs_of(LanguageKnobs)}
    for name, value in values.items():
        if name not in known:
            raise InvalidSettings(
                f"The family 'language' has no knob {name!r}.", code="unknown_key", hint=did_you_mean(name, known)
            )
        low, high = known[name].low, known[name].high
        if low is not None and high is not None and not low <= value <= high:
            raise InvalidSettings(
                f"{name} is {value!r}, expected {low:g} to {high:g}.", code="bad_knob", hint=known[name].about
            )
    return LanguageKnobs(**values)

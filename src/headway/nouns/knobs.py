"""Knobs of a family: a frozen dataclass whose fields have a description and bounds.

@dataclass(frozen=True)
class BestArmKnobs:
    prior: float = knob(1.0, "How many rewards of the overall mean each arm starts with.", low=0.0, high=1e6)

`headway learn --set`, the checks before learning and docs/reference/knobs.md all use these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, TypeVar

from headway.nouns.errors import InvalidSettings, did_you_mean

K = TypeVar("K")
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One knob. `low` and `high` bound a number; None is allowed if it is the default."""

    name: str
    kind: str
    default: Any
    about: str
    low: float | None = None
    high: float | None = None


def knob(default: Any, about: str, *, low: float | None = None, high: float | None = None) -> Any:
    """A field of a knobs dataclass."""
    metadata = {"about": about, "low": low, "high": high}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def knobs_of(kind: type[Any]) -> tuple[Knob, ...]:
    """The knobs that a dataclass declares, in its order."""
    defaults = kind()
    return tuple(
        Knob(name=one.name, kind=str(one.type), default=getattr(defaults, one.name), **one.metadata)
        for one in fields(kind)
    )


def changed(family: str, base: K, given: Mapping[str, Any], choices: Mapping[str, Sequence[str]]) -> K:
    """The knobs with these changed; an unknown name, another type or word, or a number out of range is refused.

    `choices`: the words of a knob that has only a few. Not covered: what is inside a mapping.
    """
    known = {one.name: one for one in knobs_of(type(base))}
    for name, value in given.items():
        if name not in known:
            raise InvalidSettings(
                f"The family {family!r} has no knob {name!r}.", code="unknown_key", hint=did_you_mean(name, known)
            )
        one = known[name]
        if isinstance(one.default, Mapping):
            continue
        kind, _, none = one.kind.partition(" | ")
        types, wanted = _KINDS[kind]
        fits = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
        if name in choices:
            wanted, fits = "one of " + ", ".join(choices[name]), value in choices[name]
        low, high = -inf if one.low is None else one.low, inf if one.high is None else one.high
        if fits and isinstance(value, int | float) and not (-inf < value < inf and low <= value <= high):
            fits, wanted = False, f"a number from {low:g} to {high:g}" if low > -inf else "a finite number"
        if not fits and (value is not None or none != "None"):
            raise InvalidSettings(f"The knob {name} is {value!r:.80}, not {wanted}.", code="bad_knob")
    return replace(base, **given)  # type: ignore[type-var]  # a dataclass: knobs_of has read its fields

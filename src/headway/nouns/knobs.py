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
_DEEPEST, _WIDEST = 6, 4096  # of a network
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One knob. `low` and `high` bound a number; None is allowed if it is the default; `choices`: its only words."""

    name: str
    kind: str
    default: Any
    about: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def lacking(self, value: Any) -> str:
        """What was expected, if a value does not fit; otherwise empty."""
        kind, _, other = self.kind.partition(" | ")
        if (value is None and other == "None") or other.startswith("Mapping"):  # a table is checked where it is read
            return ""
        if kind not in _KINDS:
            return _inside(kind, value)
        types, wanted = _KINDS[kind]
        fits = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
        if self.choices:
            wanted, fits = "one of " + ", ".join(self.choices), value in self.choices
        low, high = -inf if self.low is None else self.low, inf if self.high is None else self.high
        if fits and isinstance(value, int | float) and not (-inf < value < inf and low <= value <= high):
            return f"a number from {low:g} to {high:g}" if low > -inf else "a finite number"
        return "" if fits else wanted


def knob(
    default: Any, about: str, *, low: float | None = None, high: float | None = None, choices: Sequence[str] = ()
) -> Any:
    """A field of a knobs dataclass."""
    metadata = {"about": about, "low": low, "high": high, "choices": tuple(choices)}
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


def changed(family: str, base: K, given: Mapping[str, Any]) -> K:
    """The knobs with these changed; an unknown name, another type or word, or a number out of range is refused."""
    known = {one.name: one for one in knobs_of(type(base))}
    for name, value in given.items():
        if name not in known:
            raise InvalidSettings(
                f"The family {family!r} has no knob {name!r}.", code="unknown_key", hint=did_you_mean(name, known)
            )
        if wanted := known[name].lacking(value):
            raise InvalidSettings(f"The knob {name} is {value!r:.80}, not {wanted}.", code="bad_knob")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return replace(base, **values)  # type: ignore[type-var]  # a dataclass: knobs_of has read its fields


def _inside(kind: str, value: Any) -> str:
    """What was expected of the widths of a network, or of numbers by name."""
    if kind == "tuple[int, ...]":
        widths = value if isinstance(value, list | tuple) else ()
        sound = 1 <= len(widths) <= _DEEPEST and all(isinstance(one, int) and 1 <= one <= _WIDEST for one in widths)
        return "" if sound else "one to six widths, for example [64, 64]"
    if kind == "Mapping[str, float]":
        numbers = value.values() if isinstance(value, Mapping) else (value or 0.0,)
        sound = all(isinstance(number, int | float) and -inf < number < inf for number in numbers)
        return "" if sound else "numbers by name"
    return ""

"""Knobs of a family: a frozen dataclass whose fields have a description and bounds.

@dataclass(frozen=True)
class BestArmKnobs:
    prior: float = knob(1.0, "How many rewards of the overall mean each arm starts with.", low=0.0, high=1e6)

`headway learn --set`, the checks before learning and docs/reference/knobs.md all use these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["Knob", "defaults_of", "knob", "knobs_of"]


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


def defaults_of(kind: type[Any]) -> Mapping[str, Any]:
    """Name → default."""
    return {one.name: one.default for one in knobs_of(kind)}

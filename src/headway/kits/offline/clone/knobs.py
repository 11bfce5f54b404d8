"""The knobs of the family clone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.nouns.knob import knob

__all__ = ["CloneKnobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneKnobs:
    """The knobs of the family `clone` (`headway learn --set`)."""

    hidden: tuple[int, ...] = knob((64, 64), "The widths of the hidden layers, one to six.")
    steps: int = knob(3000, "How many updates.", low=1, high=10**8)
    batch: int = knob(256, "Rows of an update.", low=1, high=10**6)
    rate: float = knob(1e-3, "The learning rate.", low=1e-8, high=1.0)
    decay: float = knob(1e-2, "The weight decay.", low=0.0, high=1.0)
    explore: str = knob("greedy", '"greedy", or "policy": act as randomly as what was logged.')
    cost_weight: float = knob(0.0, "Not used: what is copied has no price.")
    costs: Mapping[str, float] = knob({}, "Not used: what is copied has no price.")
    fit_rows: int = knob(200_000, "How many rows are read to find features.", low=1, high=10**9)

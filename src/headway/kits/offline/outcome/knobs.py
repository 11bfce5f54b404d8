"""The knobs of the family outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.nouns.knob import knob

__all__ = ["OutcomeKnobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeKnobs:
    """The knobs of the family `outcome` (`headway learn --set`). None: chosen by the error on the tune part."""

    ridge: float | None = knob(None, "How strongly weights are pulled towards 0.", low=1e-3, high=1e9)
    share: float | None = knob(
        None, "How much more the arms' own part is held back than the common one.", low=1e-3, high=1e9
    )
    explore: str | Mapping[str, Any] = knob("greedy", "How the policy itself explores.")
    cost_weight: float = knob(0.0, "How much a unit of cost takes off the reward.")
    costs: Mapping[str, float] = knob({}, "The cost of each action.")
    fit_rows: int = knob(200_000, "How many rows are read to find features.", low=1, high=10**9)

"""The knobs of the family bandit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.nouns import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditKnobs:
    """The knobs of the family `bandit` (`headway learn --set`). None: chosen by the error on the tune part."""

    model: str | None = knob(None, '"linear" or "clusters".')
    ridge: float | None = knob(None, "How strongly weights are pulled towards the prior.", low=1e-6, high=1e9)
    prior: str | None = knob(None, 'What an arm is assumed to be worth: "mean", "pooled" or "shared".')
    clusters: int | None = knob(None, "How many clusters of situations.", low=1e-6, high=1e9)
    shrink: float | None = knob(None, "How strongly a cluster is pulled towards its arm.", low=1e-6, high=1e9)
    explore: str | Mapping[str, Any] = knob("squarecb", "How the policy itself explores.")
    cost_weight: float = knob(0.0, "How much a unit of cost takes off the reward.")
    costs: Mapping[str, float] = knob({}, "The cost of each action.")
    fit_rows: int = knob(200_000, "How many rows are read to find features.", low=1e-6, high=1e9)

"""The knobs of the families outcome, clone and cql; loaded without their learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.nouns import knob


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneKnobs:
    """The knobs of the family `clone` (`headway learn --set`)."""

    hidden: tuple[int, ...] = knob((64, 64), "The widths of the hidden layers, one to six.")
    steps: int = knob(3000, "How many updates.", low=1, high=10**8)
    batch: int = knob(256, "Rows of an update.", low=1, high=10**6)
    rate: float = knob(1e-3, "The learning rate.", low=1e-8, high=1.0)
    decay: float = knob(1e-2, "The weight decay.", low=0.0, high=1.0)
    explore: str = knob(
        "greedy", '"greedy", or "policy": act as randomly as what was logged.', choices=("greedy", "policy")
    )
    cost_weight: float = knob(0.0, "Not used: what is copied has no price.")
    costs: Mapping[str, float] = knob({}, "Not used: what is copied has no price.")
    fit_rows: int = knob(200_000, "How many rows are read to find features.", low=1, high=10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class CQLKnobs:
    """The knobs of the family `cql` (`headway learn --set`)."""

    gamma: float = knob(0.0, "The discount of later rewards; 0: every decision stands alone.", low=0.0, high=0.9999)
    alpha: float | None = knob(
        None, "How much is held against what was not tried; None: chosen from the data.", low=0.0, high=1e3
    )
    hidden: tuple[int, ...] = knob((64, 64), "The widths of the hidden layers, one to six.")
    steps: int | None = knob(None, "How many updates; None: 3,000, or 20,000 with gamma above 0.", low=1, high=10**8)
    batch: int = knob(256, "Rows of an update.", low=1, high=10**6)
    rate: float = knob(1e-3, "The learning rate.", low=1e-8, high=1.0)
    decay: float = knob(1e-2, "The weight decay.", low=0.0, high=1.0)
    target_every: int = knob(500, "Updates between two copies of the target network.", low=1, high=10**8)
    members: int = knob(1, "How many networks.", low=1, high=16)
    pessimism: float = knob(0.0, "How many deviations of the members are taken off.", low=0.0, high=100.0)
    explore: str | Mapping[str, Any] = knob("greedy", "How the policy itself explores.")
    cost_weight: float = knob(0.0, "How much a unit of cost takes off the reward.")
    costs: Mapping[str, float] = knob({}, "The cost of each action.")
    fit_rows: int = knob(200_000, "How many rows are read to find features.", low=1, high=10**9)

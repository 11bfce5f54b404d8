"""Costs of candidates, for policies that weigh quality against cost.

charge = Prices({"cost_weight": 2.0, "costs": {"small": 0.1, "large": 2.0}})
charge.off(mean, candidates)             # [row, candidate]: mean less cost_weight × cost
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide.stored import damaged
from headway.nouns import Candidate, Floats


class Prices:
    """The knobs `cost_weight` and `costs` of a policy."""

    __slots__ = ("costs", "weight")

    def __init__(self, knobs: Mapping[str, Any]) -> None:
        self.weight = float(knobs.get("cost_weight", 0.0))
        self.costs: dict[str, float] = {name: float(cost) for name, cost in dict(knobs.get("costs") or {}).items()}

    @staticmethod
    def check(knobs: Mapping[str, Any], *others: str) -> None:
        """`cost_weight`, `costs` and the knobs in `others` of a bundle must be finite numbers if they are set."""
        costs = knobs.get("costs") or {}
        numbers = [knobs.get(name, 0.0) for name in ("cost_weight", *others)]
        numbers += costs.values() if isinstance(costs, Mapping) else [None]
        if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
            raise damaged(f"The bundle's costs are {costs!r:.80}", "bad_header")

    def off(self, mean: Floats, candidates: Sequence[Candidate]) -> Floats:
        """Predicted rewards [row, candidate] less the weighted costs of the candidates."""
        return mean - self.weight * self.of(candidates) if self.weight else mean

    def of(self, candidates: Sequence[Candidate]) -> Floats:
        """[candidate]: the named cost, else the candidate's own feature `cost`, else the mean of the known ones."""
        costs = [self.costs.get(candidate.name, _own(candidate)) for candidate in candidates]
        given = [cost for cost in costs if cost is not None]
        known = given or list(self.costs.values())
        usual = sum(known) / len(known) if known else 0.0
        return np.array([usual if cost is None else cost for cost in costs])


def _own(candidate: Candidate) -> float | None:
    cost = candidate.features.get("cost") if candidate.features else None
    return float(cost) if isinstance(cost, int | float) and math.isfinite(cost) else None

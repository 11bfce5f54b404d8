"""From predicted rewards to opinions: less what candidates cost, explored, and how sure.

Prices({"cost_weight": 2.0, "costs": {"small": 0.1, "large": 2.0}}).off(mean, candidates)    # mean less its cost
Chooser.read(knobs).opinions(mean, deviation, candidates, seeds)                             # what a policy answers
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide import explore
from headway.decide.acting import Explorer
from headway.decide.stored import damaged
from headway.nouns import Candidate, Floats, Opinions

_ROOT_HALF = math.sqrt(0.5)


def two_best(mean: Sequence[float]) -> tuple[int, int]:
    """The indices of the best and the second best; the first of equal ones. Needs at least two."""
    best, second = (0, 1) if mean[0] >= mean[1] else (1, 0)
    for place in range(2, len(mean)):
        if mean[place] > mean[second]:
            best, second = (place, best) if mean[place] > mean[best] else (best, place)
    return best, second


def beats(gap: float, one: float, other: float) -> float:
    """P(N(gap, one² + other²) > 0)."""
    return 0.5 + 0.5 * math.erf(gap / math.sqrt(max(one * one + other * other, 1e-300)) * _ROOT_HALF)


def confidences(mean: Floats, std: Floats) -> Floats:
    """[row]: P(best beats second), both taken as independent normals; 1 if there is only one candidate."""
    rows, count = mean.shape
    if count == 1:
        return np.ones(rows)
    if rows == 1:  # one row is faster with Python floats
        scores, spreads = mean[0].tolist(), std[0].tolist()
        top, next_best = two_best(scores)
        return np.array([beats(scores[top] - scores[next_best], spreads[top], spreads[next_best])])
    index = np.arange(rows)
    best = mean.argmax(axis=1)
    rest = mean.copy()
    rest[index, best] = -np.inf
    second = rest.argmax(axis=1)
    one, other = std[index, best], std[index, second]
    spread = one * one + other * other
    z = ((mean[index, best] - mean[index, second]) / np.sqrt(np.maximum(spread, 1e-300)) * _ROOT_HALF).tolist()
    return np.array([0.5 + 0.5 * math.erf(value) for value in z])


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


class Chooser:
    """How a policy acts that predicts a reward and its deviation for each candidate."""

    __slots__ = ("_prices", "explorer")

    def __init__(self, knobs: Mapping[str, Any]) -> None:
        self.explorer, self._prices = Explorer.of(knobs.get("explore", "greedy")), Prices(knobs)

    @classmethod
    def read(cls, knobs: Mapping[str, Any], *others: str) -> Chooser:
        """From the knobs of a bundle; those in `others` must be finite numbers too."""
        Prices.check(knobs, *others)
        Explorer.read(knobs)
        return cls(knobs)

    def opinions(
        self,
        mean: Floats,
        deviation: Floats | None,
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        slope: float = 1.0,
    ) -> Opinions:
        """Confidence is the probability that the best beats the second, with gaps times `slope`."""
        mean = self._prices.off(mean, candidates)
        sure = None if deviation is None else confidences(mean * slope, deviation)
        acting, _ = self.explorer.shape(Opinions(explore.greedy(mean), None, mean, deviation), seeds)
        return Opinions(acting, sure, mean, deviation)

"""The arms that a policy knows, the positions of a decision's candidates among them, and what they cost.

arms = Arms(["large", "small"])
arms.columns(candidates)                 # [candidate]: their positions; an unknown one comes after the last
Prices({"cost_weight": 2.0, "costs": {"small": 0.1, "large": 2.0}}).off(mean, candidates)    # mean less its cost
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide.explore import with_unknown
from headway.decide.stored import damaged
from headway.nouns import Candidate, Floats, errors

_REMEMBERED = 256  # candidate sets


class Arms:
    """Names in a fixed order. Thread-safe."""

    __slots__ = ("_columns", "_index", "every", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.every: NDArray[np.int64] = np.arange(len(self.names))
        self._index = {name: place for place, name in enumerate(self.names)}
        self._columns: dict[tuple[str, ...], NDArray[np.int64]] = {}

    @classmethod
    def read(cls, extra: Mapping[str, Any], *, least: int = 1) -> Arms:
        """The arms that a bundle's header names, at least this many."""
        names = extra.get("arms")
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
            raise damaged(f"The bundle's arms are {names!r:.80}", "bad_header")
        if len(names) < least or len(set(names)) != len(names):
            raise damaged(f"The bundle has too few arms, or names one twice: {names!r:.80}", "bad_header")
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    def offered(self, logits: Floats, candidates: Sequence[Candidate]) -> Floats:
        """[row, candidate] from [row, arm]: an unknown arm is as likely as the average one."""
        return with_unknown(logits)[:, self.columns(candidates)]

    def columns(self, candidates: Sequence[Candidate]) -> NDArray[np.int64]:
        """[candidate]: `self.every` itself if they are all known arms in order."""
        names = tuple([candidate.name for candidate in candidates])
        columns = self._columns.get(names)
        if columns is None:
            if not names:
                raise errors.InvalidInput(
                    "There is no candidate.", code="no_candidate", hint="Give at least one candidate."
                )
            places = [self._index.get(name, len(self.names)) for name in names]
            columns = self.every if names == self.names else np.array(places, dtype=np.int64)
            if len(self._columns) >= _REMEMBERED:
                self._columns = {}  # a new table, not a cleared one: another thread may be reading the old
            self._columns[names] = columns
        return columns


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

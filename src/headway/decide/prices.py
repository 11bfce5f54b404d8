"""What candidates cost, for policies that weigh quality against cost.

prices(candidates, {"small": 0.1, "large": 2.0})       # [candidate]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from headway.nouns.protocols import Floats
from headway.nouns.records import Candidate

__all__ = ["prices"]


def prices(candidates: Sequence[Candidate], costs: Mapping[str, float]) -> Floats:
    """[candidate]: the named cost, else the candidate's own feature `cost`, else the mean of those that are known."""
    found = [costs.get(each.name, _own(each)) for each in candidates]
    told = [cost for cost in found if cost is not None]
    known = told or list(costs.values())
    usual = sum(known) / len(known) if known else 0.0
    return np.array([usual if cost is None else cost for cost in found])


def _own(candidate: Candidate) -> float | None:
    cost = candidate.features.get("cost") if candidate.features else None
    return float(cost) if isinstance(cost, int | float) and math.isfinite(cost) else None

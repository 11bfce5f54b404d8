"""The two tests of a 50/50 experiment that the loop is compared with.

`fixed_size`: the decisions that a test of a planned size needs. `AbTest`: the decisions until an always-valid test ends
it, by the asymptotic confidence sequence that experimentation platforms ship (Waudby-Smith and others, 2024):
two-sided at 95%, narrowest at 5,000 decisions, looked at after every 50.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALPHA", "AbTest", "fixed_size", "half_width", "sequential_sizes"]

ALPHA = 0.05
TUNED_AT = 5000
LOOK = 50
_LEAST = 100  # decisions before the first look
_RHO = math.sqrt((-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA) + 1)) / TUNED_AT)


def fixed_size(small: float, large: float, *, power: float = 0.8) -> int:
    """The decisions, half of them for either arm, with which a two-sided test at 5% has this power."""
    normal = NormalDist()
    z = normal.inv_cdf(1 - ALPHA / 2) + normal.inv_cdf(power)
    variance = small * (1 - small) + large * (1 - large)
    return 2 * math.ceil(z * z * variance / (large - small) ** 2)


def half_width(n: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the width of the confidence sequence of a mean after n observations with this standard deviation."""
    scale = n * _RHO**2 + 1
    return deviation * np.sqrt(2 * scale / (n * _RHO) ** 2 * np.log(np.sqrt(scale) / ALPHA))


class AbTest:
    """A 50/50 test of two arms with outcomes 0 and 1, played for `most` decisions."""

    def __init__(self, rng: np.random.Generator, small: float, large: float, most: int) -> None:
        arm = rng.random(most) < 0.5  # True: large
        won = rng.random(most) < np.where(arm, large, small)
        looks = np.arange(_LEAST, most + 1, LOOK)
        n = looks.astype(float)
        n_large = np.cumsum(arm)[looks - 1].astype(float)
        n_small = n - n_large
        mean_large = np.cumsum(arm & won)[looks - 1] / np.maximum(n_large, 1)
        mean_small = np.cumsum(~arm & won)[looks - 1] / np.maximum(n_small, 1)
        # per decision, the difference weighs large by n / n_large and small by n / n_small
        spread = n * (
            mean_large * (1 - mean_large) / np.maximum(n_large, 1)
            + mean_small * (1 - mean_small) / np.maximum(n_small, 1)
        )
        difference = mean_large - mean_small
        decided = np.abs(difference) > half_width(n, np.sqrt(spread))
        place = int(np.argmax(decided))
        self.ended: int | None = int(looks[place]) if decided[place] else None
        self.larger = bool(difference[place] > 0) if decided[place] else None


@lru_cache(maxsize=64)
def sequential_sizes(small: float, large: float, most: int, tests: int = 1000) -> tuple[float, ...]:
    """The decisions of sequential tests until they found `large` better, in order; infinite if not within `most`."""
    played = (AbTest(np.random.default_rng([place, 31]), small, large, most) for place in range(tests))
    return tuple(sorted(float(test.ended) if test.ended and test.larger else math.inf for test in played))

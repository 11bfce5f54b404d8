"""The probability that the best candidate beats the second best, from predicted rewards and deviations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headway.nouns import Floats

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

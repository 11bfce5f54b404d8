"""Exploration, as pure functions from scores to probabilities, and the draw.

All of them take and give float64 [row, candidate]; `allowed` is bool of the same shape (None: everything). What is not
allowed gets exactly 0, each row sums to one within 1e-12, and a row's result depends on that row alone, bit for bit.

    greedy(scores)                       1/ties on the best
    epsilon(p, 0.1)                      0.9·p + 0.1·uniform
    softmax(scores, 0.1)                 ∝ exp(score / temperature)
    squarecb(scores, gamma)              1/(k + gamma·(best − score)), the rest to the best
    thompson(mean, std, seeds)           how often each candidate wins in 128 posterior draws
    with_floor(p, 0.02)                  0.98·p + 0.02·uniform

References: Foster and Rakhlin, "Beyond UCB" (SquareCB), 2020; Thompson, 1933; Steele et al., "Fast splittable
pseudorandom number generators" (SplitMix64), 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Floats

__all__ = [
    "DRAWS",
    "draw",
    "epsilon",
    "greedy",
    "mixture",
    "normals",
    "softmax",
    "splitmix64",
    "squarecb",
    "thompson",
    "uniform",
    "with_floor",
]

Mask = NDArray[np.bool_] | None
DRAWS = 128  # Thompson's: its probabilities are multiples of 1/128, and it acts from exactly these
_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_THOMPSON_STREAM = 0xD1B54A32D192ED03
_QUANTILES = 1 << 12


def splitmix64(seed: int) -> int:
    """64 well-mixed bits of a seed; the same on every machine and in every version."""
    word = (seed + _GOLDEN) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def uniform(seed: int) -> float:
    """The number in [0, 1) that a decision with this seed draws with."""
    return float(splitmix64(seed) >> 11) * 2.0**-53


def draw(probabilities: Floats, u: float) -> int:
    """The candidate at u of the cumulative distribution: never one of probability 0."""
    reached, last = 0.0, -1
    for index, probability in enumerate(probabilities.tolist()):
        if probability > 0.0:
            reached += probability
            last = index
            if u < reached:
                return index
    if last < 0:
        raise InvalidInput("No candidate has any probability.", code="no_candidate", hint="Allow at least one.")
    return last  # the sum fell short of u by a rounding error


def _spread(allowed: NDArray[np.bool_]) -> Floats:
    """Uniform over what is allowed; a row that allows nothing is the caller's error."""
    count = allowed.sum(axis=1, keepdims=True)
    if not count.all():
        raise InvalidInput("Every candidate is masked.", code="no_candidate", hint="Allow at least one candidate.")
    even: Floats = allowed / count
    return even


def _kept(scores: Floats, allowed: Mask) -> Floats:
    """Scores with −inf where not allowed."""
    if allowed is None:
        return scores
    _spread(allowed)
    kept: Floats = np.where(allowed, scores, -np.inf)
    return kept


def greedy(scores: Floats, allowed: Mask = None) -> Floats:
    """All on the best; equal ones share."""
    scores = _kept(scores, allowed)
    best: NDArray[np.bool_] = scores == scores.max(axis=1, keepdims=True)
    shared: Floats = best / best.sum(axis=1, keepdims=True)
    return shared


def epsilon(probabilities: Floats, share: float, allowed: Mask = None) -> Floats:
    """(1 − share)·p + share·uniform over what is allowed."""
    even = 1.0 / probabilities.shape[1] if allowed is None else _spread(allowed)
    mixed: Floats = probabilities * (1.0 - share) + share * even
    return mixed


def with_floor(probabilities: Floats, floor: float, allowed: Mask = None) -> Floats:
    """p' = (1 − floor)·p + floor/k over the k allowed candidates: each of them keeps at least floor/k, so overlap
    between what was logged and what is asked later never dies. `floor` is the total, not the share per candidate.
    """
    return epsilon(probabilities, floor, allowed) if floor > 0.0 else probabilities


def softmax(scores: Floats, temperature: float, allowed: Mask = None) -> Floats:
    """∝ exp(score / temperature)."""
    scores = _kept(scores, allowed)
    weights = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return _divided(weights)


def _divided(weights: Floats) -> Floats:
    normed: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normed


def squarecb(scores: Floats, gamma: float | Floats, allowed: Mask = None) -> Floats:
    """p(a) = 1 / (k + gamma·(best − score(a))) for all but the best, which takes the rest.

    gamma is a number, or [row, 1]. Equal best ones: the first is "the best"; the others get 1/k each, as it does.
    """
    if allowed is None:
        rows, count = scores.shape
        best = scores.argmax(axis=1)
        shares: Floats = 1.0 / (count + gamma * (scores.max(axis=1, keepdims=True) - scores))
    else:
        counts = allowed.sum(axis=1, keepdims=True)
        kept = _kept(scores, allowed)
        rows = len(scores)
        best = kept.argmax(axis=1)
        gaps = np.where(allowed, kept.max(axis=1, keepdims=True) - scores, 0.0)
        shares = np.where(allowed, 1.0 / (counts + gamma * gaps), 0.0)
    index = np.arange(rows)
    shares[index, best] = 0.0
    shares[index, best] = 1.0 - shares.sum(axis=1)
    return shares


@cache
def _quantiles() -> Floats:
    """The standard normal at 4,096 equally probable midpoints, scaled to variance one."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)])
    values /= np.sqrt((values * values).mean())
    values.flags.writeable = False
    return values


def normals(seeds: Sequence[int], count: int) -> Floats:
    """[row, count] standard normal numbers, a pure function of each row's seed (SplitMix64, 12 bits per number)."""
    start = np.array([splitmix64((seed ^ _THOMPSON_STREAM) & _WORD) for seed in seeds], dtype=np.uint64)
    words = -(-count // 4)
    word = start[:, None] + np.arange(1, words + 1, dtype=np.uint64) * np.uint64(_GOLDEN)  # wraps on purpose
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    places = word.astype("<u8", copy=False).view("<u2")[:, :count] >> np.uint16(4)
    values: Floats = _quantiles()[places]
    return values


def thompson(mean: Floats, std: Floats, seeds: Sequence[int], allowed: Mask = None) -> Floats:
    """How often each candidate is the best in 128 joint draws from Normal(mean, std²), seeded by the decision's seed.

    These frequencies *are* the acting distribution: the action is drawn from them with the decision's own u, so the
    propensity is exact and not an estimate. Of equal draws the first candidate's wins.
    """
    rows, count = mean.shape
    wins = np.empty((rows, count))
    if allowed is not None:
        _spread(allowed)
    step = max(1, 4_000_000 // (DRAWS * count))  # keeps the table of draws under 32 MB
    for first in range(0, rows, step):
        part = slice(first, first + step)
        sampled = normals(seeds[part], DRAWS * count).reshape(-1, DRAWS, count)
        sampled *= std[part, None, :]
        sampled += mean[part, None, :]
        if allowed is not None:
            sampled[~np.broadcast_to(allowed[part, None, :], sampled.shape)] = -np.inf
        winner = sampled.argmax(axis=2)
        winner += np.arange(len(winner))[:, None] * count
        wins[part] = np.bincount(winner.ravel(), minlength=len(winner) * count).reshape(-1, count)
    return wins / DRAWS


def mixture(current: Floats, canary: Floats, share: float) -> Floats:
    """μ = (1 − share)·current + share·canary."""
    return current * (1.0 - share) + canary * share

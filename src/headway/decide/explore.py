"""Exploration as pure functions from scores to probabilities, and the draw.

All of them take and return float64 [row, candidate]; `allowed` is bool of the same shape (None: all). A masked
candidate gets exactly 0, each row sums to one within 1e-12, and a row depends only on itself, bit for bit.

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

from headway.nouns import Floats, errors

Mask = NDArray[np.bool_] | None
DRAWS = 128  # Thompson's: its probabilities are multiples of 1/128, and it acts from exactly these
_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_THOMPSON_STREAM = 0xD1B54A32D192ED03
_QUANTILES = 1 << 12
_POOL = 1 << 16
_MOST_POOLED = 64


def splitmix64(seed: int) -> int:
    """64 well-mixed bits of a seed; the same on every machine and in every version."""
    word = (seed + _GOLDEN) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def uniform(seed: int) -> float:
    """The number in [0, 1) for the draw of a decision with this seed."""
    return float(splitmix64(seed) >> 11) * 2.0**-53


def draw(probabilities: Sequence[float], u: float) -> int:
    """The candidate at u of the cumulative distribution: never one of probability 0."""
    reached, last = 0.0, -1
    for index, probability in enumerate(probabilities):
        if probability > 0.0:
            reached += probability
            last = index
            if u < reached:
                return index
    if last < 0:
        raise errors.InvalidInput("No candidate has any probability.", code="no_candidate", hint="Allow at least one.")
    return last  # a rounding error left the sum below u


def drawn(probabilities: Sequence[float], seed: int) -> int:
    """The candidate that a decision with this seed draws."""
    return draw(probabilities, uniform(seed))


def _spread(allowed: NDArray[np.bool_]) -> Floats:
    """Uniform over the allowed candidates; a row without any is the caller's error."""
    count = allowed.sum(axis=1, keepdims=True)
    if not count.all():
        raise errors.InvalidInput(
            "Every candidate is masked.", code="no_candidate", hint="Allow at least one candidate."
        )
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
    """Probability 1 for the best; equal ones share it."""
    if allowed is None and len(scores) == 1:  # one row is faster with Python floats
        row = scores[0].tolist()
        high = max(row)
        share = 1.0 / row.count(high)
        return np.array([[share if score == high else 0.0 for score in row]])
    scores = _kept(scores, allowed)
    best: NDArray[np.bool_] = scores == scores.max(axis=1, keepdims=True)
    shared: Floats = best / best.sum(axis=1, keepdims=True)
    return shared


def epsilon(probabilities: Floats, share: float, allowed: Mask = None) -> Floats:
    """(1 − share)·p + share·uniform over the allowed candidates."""
    even = 1.0 / probabilities.shape[1] if allowed is None else _spread(allowed)
    mixed: Floats = probabilities * (1.0 - share) + share * even
    return mixed


def with_floor(probabilities: Floats, floor: float, allowed: Mask = None) -> Floats:
    """p' = (1 − floor)·p + floor/k over the k allowed candidates: each of them gets at least floor/k, so the
    overlap between logged and later policies never vanishes. `floor` is the total, not the share per candidate.
    """
    return epsilon(probabilities, floor, allowed) if floor > 0.0 else probabilities


def softmax(scores: Floats, temperature: float, allowed: Mask = None, floor: float = 0.0) -> Floats:
    """∝ exp(score / temperature), with a floor."""
    # Row-major in memory: in column-major order numpy adds the weights of a row in another order.
    scores = np.ascontiguousarray(_kept(scores, allowed))
    weights = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    normed: Floats = weights / weights.sum(axis=1, keepdims=True)
    return with_floor(normed, floor, allowed)


def with_unknown(logits: Floats) -> Floats:
    """[row, arm + 1]: the last column is an unknown arm, as likely as the average arm."""
    top = logits.max(axis=1, keepdims=True)
    usual = top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True) / logits.shape[1])
    return np.concatenate([logits, usual], axis=1)


def squarecb(scores: Floats, gamma: float, allowed: Mask = None) -> Floats:
    """p(a) = 1 / (k + gamma·(best − score(a))) for all but the best, which takes the rest.

    The first of equal best ones is "the best"; the others get 1/k each.
    """
    if allowed is None and len(scores) == 1:  # one row is faster with Python floats
        row = scores[0].tolist()
        count, high = len(row), max(row)
        best_place = row.index(high)
        row = [1.0 / (count + gamma * (high - score)) for score in row]
        row[best_place] = 0.0
        rest = 0.0
        for share in row:
            rest += share
        row[best_place] = 1.0 - rest
        return np.array(row)[None, :]
    if allowed is None:
        allowed = np.ones(scores.shape, dtype=bool)
    counts = allowed.sum(axis=1, keepdims=True)
    kept = _kept(scores, allowed)
    best = kept.argmax(axis=1)
    gaps = np.where(allowed, kept.max(axis=1, keepdims=True) - scores, 0.0)
    shares: Floats = np.where(allowed, 1.0 / (counts + gamma * gaps), 0.0)
    index = np.arange(len(scores))
    shares[index, best] = 0.0
    shares[index, best] = 1.0 - shares.cumsum(axis=1)[:, -1]  # added from left to right, as above
    return shares


@cache
def _pool() -> Floats:
    """65,536 standard normal numbers (with the beginning repeated): SplitMix64 words through the normal quantiles.

    12 bits choose one of 4,096 equally probable midpoints, scaled to variance one.
    """
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)])
    quantiles /= np.sqrt((quantiles * quantiles).mean())
    words = np.array([splitmix64(_THOMPSON_STREAM + i) for i in range(_POOL // 4)], dtype="<u8")
    values = quantiles[words.view("<u2") >> np.uint16(4)]
    values = np.concatenate([values, values[: DRAWS * _MOST_POOLED]])
    values.flags.writeable = False
    return values


def normals(seed: int, count: int) -> Floats:
    """[128, count] standard normal numbers; the seed sets the start in the pool.

    The draws of two decisions are practically independent, and those of one decision are distinct numbers of the pool
    for up to 64 candidates; with more, SplitMix64 chooses the numbers.
    """
    if count <= _MOST_POOLED:
        begin = splitmix64(seed ^ _THOMPSON_STREAM) % _POOL
        return _pool()[begin : begin + DRAWS * count].reshape(DRAWS, count)
    places = [splitmix64(seed ^ (_THOMPSON_STREAM + i)) % _POOL for i in range(count)]
    spread: Floats = _pool()[(np.array(places) + np.arange(DRAWS)[:, None]) % _POOL]
    return spread


def thompson(mean: Floats, std: Floats, seeds: Sequence[int], allowed: Mask = None) -> Floats:
    """How often each candidate is the best in 128 joint draws from Normal(mean, std²), seeded by the decision's seed.

    These frequencies *are* the acting distribution: the action is drawn from them with the decision's own u, so the
    propensity is exact and not an estimate. Of equal draws the first candidate's wins.
    """
    rows, count = mean.shape
    if allowed is not None:
        _spread(allowed)
        mean, std = np.where(allowed, mean, -np.inf), np.where(allowed, std, 0.0)
    wins = np.empty((rows, count))
    for row, seed in enumerate(seeds):
        sampled = normals(seed, count) * std[row]
        sampled += mean[row]
        wins[row] = np.bincount(sampled.argmax(axis=1), minlength=count)
    wins /= DRAWS
    return wins


def mixture(current: Floats, canary: Floats, share: float) -> Floats:
    """μ = (1 − share)·current + share·canary."""
    return current * (1.0 - share) + canary * share


class Seeds:
    """A reproducible stream of decision seeds (for demonstrations and tests)."""

    def __init__(self, seed: int) -> None:
        self._state = splitmix64(seed)

    def next(self) -> int:
        self._state = splitmix64(self._state)
        return self._state


def without_canary(
    logged: Sequence[float], canary: Sequence[float] | Floats, share: float, floor: float, usual_floor: float
) -> tuple[float, ...]:
    """What the live policy alone would have drawn from with its usual floor, from what was drawn from beside a canary.

    μ = (1 − share)·own + share·canary, and own = (1 − floor)·chosen + floor/k: solved for `chosen`.
    """
    drawn = np.asarray(logged)
    rest = np.maximum(drawn - share * np.asarray(canary)[: len(drawn)], 0.0)
    rest /= rest.sum()
    if floor != usual_floor:
        chosen = np.maximum(rest - floor / rest.size, 0.0)
        chosen = chosen / chosen.sum() if chosen.sum() > 0.0 else np.full(rest.size, 1.0 / rest.size)
        rest = (1.0 - usual_floor) * chosen + usual_floor / rest.size
    return tuple(rest.tolist())

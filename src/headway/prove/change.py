"""Has the mean of a stream of bounded values changed, and since when?

    change = find_change(rewards, limit(0.0125))
    change.split, change.before, change.after        # the first row after the change, the means on both sides

For every split point of the stream, the statistic compares the means before and after it with their common mean: the
generalised likelihood ratio for bounded values (Besson, Kaufmann, Maillard and Seznec, "Efficient change-point
detection for tackling piecewise-stationary bandits", 2022),

    s·kl(m1, m) + (n − s)·kl(m2, m),      kl(p, q) = p·ln(p/q) + (1 − p)·ln((1 − p)/(1 − q)).

Where we differ:
- kl takes every value for a coin flip. That is right for success or failure, and far too careful for values that vary
  little. So Bennett's bound with the variance within both sides is computed as well, and the larger one counts. It
  grows slowly where one row can lie far away, so that a rare disaster does not look like a change.
- The threshold does not grow with the length of the stream. What is bounded is the number of false alarms per row,
  not the probability of a false alarm ever; `limit` was fitted by simulation.
- Values are scaled by the range that was observed, not by the range that is allowed.

Not covered: values that depend on each other (bursts), and several changes in one stream: the strongest is returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats

LEAST_BEFORE, LEAST_AFTER = 50, 10  # rows on either side of a split
_PER = 100_000  # rows that a false-alarm rate is about
_CHANCES = 0.09  # chances of a false alarm per row, fitted to 900 simulated streams of 100,000 rows
_DENSE, _RATIO = 300, 1.03  # every split among the last rows; before them, each segment is 3% longer than the next
_CERTAIN = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The mean of a stream changed."""

    split: int  # the first row after the change
    before: float  # the means
    after: float
    rows: tuple[int, int]  # before and after
    strength: float  # logarithm of the likelihood ratio

    @property
    def fall(self) -> bool:
        return self.after < self.before


def moved_by(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """How much a mean changed, and the standard error of that."""
    old, new = np.array(before), np.array(after)
    error = math.sqrt(float(old.var()) / old.size + float(new.var()) / new.size)
    return float(new.mean() - old.mean()), error


def limit(rate: float) -> float:
    """The strength that a stream without changes exceeds `rate` times per 100,000 rows."""
    return math.log(_CHANCES * _PER / rate)


def find_change(values: Floats, least: float) -> Change | None:
    """The strongest change of the mean, if its strength is at least `least`."""
    n = values.size
    if n < LEAST_BEFORE + LEAST_AFTER:
        return None
    low, high = float(values.min()), float(values.max())
    if low == high:
        return None
    scaled = (values - low) / (high - low)
    sums, squares = _sums(scaled), _sums(scaled * scaled)
    coarse = _splits(n)
    place = int(np.argmax(strengths(sums, squares, coarse)))
    fine = np.arange(coarse[max(0, place - 1)], coarse[min(coarse.size - 1, place + 1)] + 1)
    strength = strengths(sums, squares, fine)
    best = int(np.argmax(strength))
    if strength[best] < least:
        return None
    split = int(fine[best])
    return Change(
        split=split,
        before=float(values[:split].mean()),
        after=float(values[split:].mean()),
        rows=(split, n - split),
        strength=float(strength[best]),
    )


def strengths(sums: Floats, squares: Floats, splits: NDArray[np.int64]) -> Floats:
    """The logarithm of the likelihood ratio for each split: [..., split].

    `sums` and `squares` are cumulative, from 0, of values between 0 and 1: [..., row + 1].
    """
    n = sums.shape[-1] - 1
    first, last = splits, n - splits
    total, before = sums[..., -1:], sums[..., splits]
    mean, mean_before, mean_after = total / n, before / first, (total - before) / last
    coins = first * _entropy(mean_before) + last * _entropy(mean_after) - n * _entropy(mean)
    within = squares[..., -1:] - first * mean_before**2 - last * mean_after**2
    variance = (np.maximum(within, 0.0) + 0.25) / n  # one more row, half the range away: never zero
    bennett = first * _bennett(mean_before - mean, mean, variance) + last * _bennett(mean_after - mean, mean, variance)
    result: Floats = np.maximum(coins, bennett)
    return result


def _bennett(difference: Floats, mean: Floats, variance: Floats) -> Floats:
    """Per row: how unlikely it is that the mean of rows with this variance differs this much."""
    reach = np.maximum(np.where(difference < 0, mean, 1.0 - mean), _CERTAIN)  # the furthest that one row can lie away
    ratio = reach * np.abs(difference) / variance
    result: Floats = variance / reach**2 * ((1.0 + ratio) * np.log1p(ratio) - ratio)
    return result


def _entropy(mean: Floats) -> Floats:
    """p·ln p + (1 − p)·ln(1 − p)."""
    inside = np.clip(mean, _CERTAIN, 1.0 - _CERTAIN)
    result: Floats = inside * np.log(inside) + (1.0 - inside) * np.log1p(-inside)
    return result


def _sums(values: Floats) -> Floats:
    sums = np.zeros(values.size + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def _splits(n: int) -> NDArray[np.int64]:
    """The split points to try, in order: a few hundred, however long the stream is."""
    after = np.arange(LEAST_AFTER, min(_DENSE, n) + 1)
    if n > _DENSE:
        more = np.arange(1, int(math.log(n / _DENSE) / math.log(_RATIO)) + 1)
        after = np.concatenate([after, np.unique((_DENSE * _RATIO**more).astype(np.int64))])
    return n - after[::-1][after[::-1] <= n - LEAST_BEFORE]

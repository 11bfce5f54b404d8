"""Intervals for display: normal, studentised bootstrap. Logs with all probabilities use `headway.prove.display`.

The bootstrap draws how often each row comes up. Beyond `EXACT` rows it draws for bins of neighbouring sorted values
instead (extreme rows stay unbinned), with Poisson counts: the distribution of the resampled mean and variance is the
same up to the variance inside a bin, which for sorted rows is below one part in ten thousand, and the cost does not
grow with the rows (Chamandy et al., 2012, for Poisson counts; the binning is ours).
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np

from headway.nouns import Floats

EXACT = 4_096
BINS = 1_024
TAIL = 512  # rows at each end that are never binned
_BATCH = 2_000_000  # numbers drawn at once


def normal(rows: Floats, level: float = 0.95) -> tuple[float, float]:
    """Mean ± z·s/√n."""
    n = rows.size
    if n < 2:
        return float("-inf"), float("inf")
    mean = float(rows.mean())
    wide = NormalDist().inv_cdf(0.5 + level / 2.0) * sqrt(float(rows.var(ddof=1)) / n)
    return mean - wide, mean + wide


def bootstrap(rows: Floats, *, level: float = 0.95, resamples: int = 1_000, seed: int = 0) -> tuple[float, float]:
    """The studentised (bootstrap-t) interval of a mean: second-order accurate for skewed scores."""
    n = rows.size
    if n < 2:
        return float("-inf"), float("inf")
    mean, variance = float(rows.mean()), float(rows.var(ddof=1))
    if variance <= 1e-24 * (1.0 + mean * mean):
        return mean, mean
    rng = np.random.default_rng(seed)
    centred = rows - mean  # keeps Σx² − n·mean² accurate
    count, total, square = _drawn_rows(centred, resamples, rng) if n <= EXACT else _drawn_bins(centred, resamples, rng)
    again = total / count
    spread = np.maximum(square / count - again**2, 1e-12 * variance)
    t = np.sort(again / np.sqrt(spread / count))
    error = sqrt(variance / n)
    low, high = np.quantile(t, [0.5 - level / 2.0, 0.5 + level / 2.0])
    return mean - float(high) * error, mean - float(low) * error


def _drawn_rows(x: Floats, resamples: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Count, Σx and Σx² of each resample, drawing n rows with replacement."""
    n = x.size
    total, square = np.empty(resamples), np.empty(resamples)
    step = max(1, _BATCH // n)
    for start in range(0, resamples, step):
        stop = min(resamples, start + step)
        drawn = x[rng.integers(0, n, size=(stop - start, n), dtype=np.int32)]
        total[start:stop] = drawn.sum(axis=1)
        square[start:stop] = np.einsum("ij,ij->i", drawn, drawn)
    return np.full(resamples, float(n)), total, square


def _drawn_bins(x: Floats, resamples: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """The same for many rows: Poisson counts of bins of neighbours."""
    x = np.sort(x)
    n = x.size
    edges = np.concatenate(
        [np.arange(TAIL), np.linspace(TAIL, n - TAIL, BINS + 1).astype(np.int64), np.arange(n - TAIL + 1, n)]
    )
    size = np.diff(np.append(edges, n)).astype(np.float64)
    moments = np.stack([np.add.reduceat(x, edges) / size, np.add.reduceat(x * x, edges) / size], axis=1)
    sums = np.empty((resamples, 3))
    step = max(1, _BATCH // size.size)
    for start in range(0, resamples, step):
        stop = min(resamples, start + step)
        counts = rng.poisson(size, size=(stop - start, size.size)).astype(np.float64)
        sums[start:stop, 0] = counts.sum(axis=1)
        sums[start:stop, 1:] = counts @ moments
    return sums[:, 0], sums[:, 1], sums[:, 2]

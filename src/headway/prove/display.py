"""The displayed numbers: cross-fitted doubly robust values with intervals from the known probabilities.

They use all rows at once, including later ones. So they are the best estimate at the moment, and not valid for a test
that is read more than once. Logs beyond `MOST_BYTES` show the streamed past-only estimates instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headway.nouns import Estimate
from headway.prove.log import Floats, Log
from headway.prove.reward_model import held_out_predictions
from headway.prove.spread import LEAST, ScoreSpread, possible

MOST_BYTES = 96 * 2**20
MOST_CONSTANTS = 12


class Display:
    """Keeps a log's rows while they fit in memory, and estimates from them."""

    def __init__(self, *, reward_range: tuple[float, float] | None = None) -> None:
        self.reward_range = reward_range
        self._chunks: list[Log] | None = []
        self._bytes = 0

    def add(self, chunk: Log) -> None:
        if self._chunks is None:
            return
        self._bytes += sum(
            value.nbytes
            for value in (chunk.reward, chunk.action, chunk.logged, chunk.target, chunk.baseline, chunk.features)
        )
        if self._bytes > MOST_BYTES:
            self._chunks = None
            return
        self._chunks.append(chunk)

    def estimates(self, difference: Estimate, values: dict[str, Estimate]) -> tuple[Estimate, dict[str, Estimate]]:
        """The difference and the values to show; the given ones if there were too many rows to keep."""
        if not self._chunks:
            return difference, values
        log = _together(self._chunks)
        if int((~np.isnan(log.reward)).sum()) < LEAST:
            return self._unknown(log, difference, values)
        q = cross_fitted(log)
        spread = ScoreSpread(log, q, self.reward_range)
        shown = dict(values)
        result = paired(log, q, spread)
        shown["candidate"] = value(log, log.target, q, spread)
        shown["current"] = value(log, log.baseline, q, spread)
        shown["behaviour"] = self._behaviour(log, spread)
        if len(log.arms) <= MOST_CONSTANTS:
            for column, arm in enumerate(log.arms):
                if not (log.logged[:, column] > 0.0).all():
                    continue  # the arm was not always a candidate, so "always this arm" is not defined
                constant = np.zeros_like(log.target)
                constant[:, column] = 1.0
                shown[f"always {arm}"] = value(log, constant, q, spread)
        return result, shown

    def _behaviour(self, log: Log, spread: ScoreSpread) -> Estimate:
        """What was earned: the mean reward."""
        rewards = log.reward[~np.isnan(log.reward)]
        low, high = spread.interval(rewards, log.logged)
        return Estimate(
            value=float(rewards.mean()), low=low, high=high, n=rewards.size, ess=float(rewards.size), method="mean"
        )

    def _unknown(
        self, log: Log, difference: Estimate, values: dict[str, Estimate]
    ) -> tuple[Estimate, dict[str, Estimate]]:
        """With a handful of rows an interval is all that is possible."""
        low, high = possible(log.reward, self.reward_range)
        span = high - low
        return replace(difference, low=-span, high=span), {
            name: replace(value, low=low, high=high) for name, value in values.items()
        }


def _together(chunks: list[Log]) -> Log:
    """One log with the columns that the estimates read."""
    if len(chunks) == 1:
        return chunks[0]
    read = ("reward", "action", "logged", "target", "baseline", "features", "status", "order", "worst")
    columns: dict[str, Any] = {name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in read}
    return Log(arms=chunks[0].arms, **columns)


FOLDS = 5


def terms(log_: Log, policy: Floats, q: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """w, m and q(x, A) of a policy [n, arm] on a log; without a reward model m and q are 0.

    A decision counts m + w e: its doubly robust value (Dudík, Langford and Li, 2011).
    """
    index = np.arange(len(log_))
    weight = policy[index, log_.action] / log_.logged[index, log_.action]
    if q is None:
        return weight, np.zeros(len(log_)), np.zeros(len(log_))
    return weight, np.einsum("ij,ij->i", policy, q), q[index, log_.action]


def effective_size(weight: Floats) -> float:
    """Kish: (Σw)² / Σw²; the number of the target policy's own decisions with the same precision."""
    square = float(weight @ weight)
    return float(weight.sum()) ** 2 / square if square > 0.0 else 0.0


def cross_fitted(log_: Log, folds: int = FOLDS) -> Floats:
    """q [n, arm]; each row predicted by a model fitted without its fold. For display only: it uses later rows."""
    fold = np.arange(len(log_)) % folds
    return held_out_predictions(log_.features, log_.action, log_.reward, fold, arms=len(log_.arms))


def value(log_: Log, policy: Floats, q: Floats, spread: ScoreSpread) -> Estimate:
    """The value of a policy [n, arm]; rows without a reward are omitted. The interval comes from the probabilities."""
    values, ess = _rows(log_, policy, q)
    low, high = spread.interval(values, policy)
    return _estimate(values, low, high, ess)


def paired(log_: Log, q: Floats, spread: ScoreSpread) -> Estimate:
    """Target minus baseline on the same rows: their common noise cancels."""
    values, ess = difference(log_, q)
    low, high = spread.interval(values, log_.target - log_.baseline, paired=True)
    return _estimate(values, low, high, ess)


def difference(log_: Log, q: Floats) -> tuple[Floats, float]:
    """Target minus baseline for each row with a reward, and the effective size of the target."""
    ours, ess = _rows(log_, log_.target, q)
    return ours - _rows(log_, log_.baseline, q)[0], ess


def _rows(log_: Log, policy: Floats, q: Floats) -> tuple[Floats, float]:
    seen = ~np.isnan(log_.reward)
    weight, direct, fitted = (column[seen] for column in terms(log_, policy, q))
    return direct + weight * (log_.reward[seen] - fitted), effective_size(weight)


def _estimate(values: Floats, low: float, high: float, ess: float) -> Estimate:
    mean = float(values.mean()) if values.size else 0.0
    return Estimate(value=mean, low=low, high=high, n=values.size, ess=ess, method="dr")

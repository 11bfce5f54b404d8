"""The displayed numbers: cross-fitted doubly robust values with intervals from the known probabilities.

They use all rows at once, including later ones. So they are the best estimate at the moment, and not valid for a test
that is read more than once. Logs beyond `MOST_BYTES` show the streamed past-only estimates instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headway.nouns import Estimate
from headway.prove import estimators
from headway.prove.log import Log
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
        q = estimators.cross_fitted(log)
        spread = ScoreSpread(log, q, self.reward_range)
        shown = dict(values)
        result = estimators.paired(log, q, spread)
        shown["candidate"] = estimators.value(log, log.target, q, spread)
        shown["current"] = estimators.value(log, log.baseline, q, spread)
        shown["behaviour"] = self._behaviour(log, spread)
        if len(log.arms) <= MOST_CONSTANTS:
            for column, arm in enumerate(log.arms):
                if not (log.logged[:, column] > 0.0).all():
                    continue  # the arm was not always a candidate, so "always this arm" is not defined
                constant = np.zeros_like(log.target)
                constant[:, column] = 1.0
                shown[f"always {arm}"] = estimators.value(log, constant, q, spread)
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

"""The displayed numbers: cross-fitted doubly robust values with bootstrap intervals.

They use all rows at once, including later ones. So they are the best estimate at the moment, and not valid for a test
that is read more than once. Logs beyond `MOST_BYTES` show the streamed past-only estimates instead.
"""

from __future__ import annotations

import numpy as np

from headway.nouns.evidence import Estimate
from headway.prove import estimators
from headway.prove.log import Log

__all__ = ["MOST_BYTES", "Display"]

MOST_BYTES = 96 * 2**20
MOST_CONSTANTS = 12


class Display:
    """Keeps a log's rows while they fit in memory, and estimates from them."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
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
        seen = ~np.isnan(log.reward)
        if int(seen.sum()) < 2 * estimators.FOLDS:
            return difference, values
        q = estimators.cross_fitted(log)
        shown = dict(values)
        result = estimators.paired(log, q=q, seed=self.seed)
        shown["candidate"] = estimators.estimate(log, log.target, q=q, seed=self.seed)
        shown["current"] = estimators.estimate(log, log.baseline, q=q, seed=self.seed)
        shown["behaviour"] = estimators.estimate_rows(
            log.reward[seen], method="mean", ess=float(seen.sum()), seed=self.seed
        )
        if len(log.arms) <= MOST_CONSTANTS:
            for column, arm in enumerate(log.arms):
                if not (log.logged[:, column] > 0.0).all():
                    continue  # the arm was not always a candidate, so "always this arm" is not defined
                constant = np.zeros_like(log.target)
                constant[:, column] = 1.0
                shown[f"always {arm}"] = estimators.estimate(log, constant, q=q, interval="normal")
        return result, shown


def _together(chunks: list[Log]) -> Log:
    """One log with the columns that the estimates read."""
    if len(chunks) == 1:
        return chunks[0]
    return Log(
        arms=chunks[0].arms,
        reward=np.concatenate([chunk.reward for chunk in chunks]),
        action=np.concatenate([chunk.action for chunk in chunks]),
        logged=np.concatenate([chunk.logged for chunk in chunks]),
        target=np.concatenate([chunk.target for chunk in chunks]),
        baseline=np.concatenate([chunk.baseline for chunk in chunks]),
        features=np.concatenate([chunk.features for chunk in chunks]),
        status=np.concatenate([chunk.status for chunk in chunks]),
        order=np.concatenate([chunk.order for chunk in chunks]),
        worst=np.concatenate([chunk.worst for chunk in chunks]),
    )

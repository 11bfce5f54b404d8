"""The numbers that people look at: cross-fitted doubly robust values with bootstrap intervals.

They use all rows at once, later ones too, which makes them the best estimate now and useless for a test that is looked
at more than once. Logs beyond `MOST_BYTES` keep the streamed past-only estimates instead.
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
    """Keeps a log's rows while they are few enough, and estimates from them."""

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
        """The difference and the values to show; those given where the rows were too many to keep."""
        if not self._chunks:
            return difference, values
        log = _together(self._chunks)
        seen = ~np.isnan(log.reward)
        if int(seen.sum()) < 2 * estimators.FOLDS:
            return difference, values
        q = estimators.cross_fitted(log)
        shown = dict(values)
        found = estimators.paired(log, q=q, seed=self.seed)
        shown["candidate"] = estimators.estimate(log, log.target, q=q, seed=self.seed)
        shown["current"] = estimators.estimate(log, log.baseline, q=q, seed=self.seed)
        shown["behaviour"] = estimators.estimate_rows(
            log.reward[seen], method="mean", ess=float(seen.sum()), seed=self.seed
        )
        if len(log.arms) <= MOST_CONSTANTS:
            for column, arm in enumerate(log.arms):
                if not (log.logged[:, column] > 0.0).all():
                    continue  # not always a candidate: "always" has no meaning
                constant = np.zeros_like(log.target)
                constant[:, column] = 1.0
                shown[f"always {arm}"] = estimators.estimate(log, constant, q=q, interval="normal")
        return found, shown


def _together(chunks: list[Log]) -> Log:
    """One log of what the estimates read."""
    if len(chunks) == 1:
        return chunks[0]
    return Log(
        arms=chunks[0].arms,
        reward=np.concatenate([each.reward for each in chunks]),
        action=np.concatenate([each.action for each in chunks]),
        logged=np.concatenate([each.logged for each in chunks]),
        target=np.concatenate([each.target for each in chunks]),
        baseline=np.concatenate([each.baseline for each in chunks]),
        features=np.concatenate([each.features for each in chunks]),
        status=np.concatenate([each.status for each in chunks]),
        settled_seq=np.concatenate([each.settled_seq for each in chunks]),
    )

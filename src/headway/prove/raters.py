"""Who gave the rewards of a log: each rater's share, and the same test without that rater.

Omitting a rater's rows from the sum is not enough. Its rewards trained the reward model, which is used on every row;
and if it rated only the actions of one policy, no remaining row corrects that. So a second test runs in parallel: rows
that others rated too keep the others' reward, and rows that only this rater rated get the mean reward of all others so
far, whatever the action. Such a row carries no information about a difference.

Not covered: raters who collude. Each is removed on its own; for raters after the first 64 (`MOST_RATERS`), only the
scores of their own rows are subtracted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Evidence, RaterShare, is_own
from headway.prove.log import Floats, Log
from headway.prove.tally import ColumnMean, ScoreTally
from headway.prove.wagers import Wagers


class RaterScores:
    """Sums over a rater's rows: scores, what the gamblers won on them, and how many rows only this rater rated."""

    __slots__ = ("alone", "lost", "n", "total", "won")

    def __init__(self) -> None:
        self.n, self.alone, self.total = 0, 0, 0.0
        self.won: Floats | float = 0.0  # [gambler]; by betting that the candidate is better
        self.lost: Floats | float = 0.0  # [gambler]; by betting that it is worse

    def add(
        self, score: Floats, bets: tuple[Floats, Floats], rated: NDArray[np.bool_], alone: NDArray[np.bool_]
    ) -> None:
        self.n += int(rated.sum())
        self.alone += int(alone.sum())
        self.total += float(score[rated].sum())
        self.won = self.won + bets[0][:, rated].sum(axis=1)
        self.lost = self.lost + bets[1][:, rated].sum(axis=1)


class RewardMean:
    """The mean of the rewards so far."""

    __slots__ = ("mean",)

    def __init__(self) -> None:
        self.mean = ColumnMean()

    def add(self, reward: Floats) -> None:
        self.mean.add(reward[~np.isnan(reward)])

    def before(self, reward: Floats) -> Floats:
        """[n]; the mean of all rewards before each row, then adds them; NaN before the first."""
        known = np.where(np.isnan(reward), 0.0, reward)
        seen = ~np.isnan(reward)
        total = self.mean.total + np.cumsum(known) - known
        count = self.mean.n + np.cumsum(seen) - seen
        mean: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return mean


def silenced(chunk: Log, rater: str, known: RewardMean) -> Log:
    """The chunk without this rater's rewards; `known` holds the others' rewards and is updated with this chunk."""
    told = chunk.without.get(rater, chunk.reward)
    reward = np.where(np.isnan(told) & ~np.isnan(chunk.reward), known.before(told), told)
    known.add(told)
    return replace(chunk, reward=reward, raters={}, without={}, segments={}, guards={}, keys=None, sources=None)


class _Test(Protocol):
    @property
    def tally(self) -> ScoreTally: ...
    @property
    def bets(self) -> Wagers: ...
    @property
    def alpha(self) -> float: ...
    @property
    def alpha_worse(self) -> float: ...

    def statistic(self, margin: float = 0.0) -> float: ...
    def statistic_worse(self) -> float: ...


class _Rated(_Test, Protocol):
    @property
    def raters(self) -> Mapping[str, RaterScores]: ...
    @property
    def without(self) -> Mapping[str, _Test]: ...


def standing(proof: _Rated, *, margin: float) -> tuple[RaterShare, ...]:
    """Every rater with its share and the rule's result without it, most rows first."""
    n, total = proof.tally.n, proof.tally.scores.total - margin * proof.tally.n
    standings = []
    for name, rated in proof.raters.items():
        test, own = proof.without.get(name), is_own(name)
        statistic = statistic_worse = rest = 0.0
        if test is not None:
            statistic, statistic_worse = test.statistic(margin), test.statistic_worse()
            rest = test.tally.scores.total - margin * test.tally.n
        elif not own:  # too late for a test from the start: leave its own rows out
            statistic = proof.bets.better.log_wealth(margin, less=rated.won)
            statistic_worse = proof.bets.worse.log_wealth(less=rated.lost)
            rest = total - (rated.total - margin * rated.n)
        standings.append(
            RaterShare(
                name=name,
                rows=rated.n,
                share=rated.n / n if n else 0.0,
                uplift=1.0 - rest / total if total > 0.0 and not own else None,
                own=own,
                others=n - rated.alone,
                statistic=statistic,
                threshold=0.0 if own else log(1.0 / proof.alpha),
                statistic_worse=statistic_worse,
                threshold_worse=0.0 if own else log(1.0 / proof.alpha_worse),
            )
        )
    return tuple(sorted(standings, key=lambda rater: (-rater.rows, rater.name)))


def with_regions(evidence: Evidence, places: Mapping[str, str], unchecked: Sequence[str]) -> Evidence:
    """The evidence with where each key alone decides (`places`), and with what could not be checked about it."""
    if not places and not unchecked:
        return evidence
    raters = {rater.name: rater for rater in evidence.raters}
    for name in places:  # a key that has rated training rows alone
        raters.setdefault(
            name,
            RaterShare(
                name=name,
                rows=0,
                share=0.0,
                uplift=0.0,
                others=evidence.n,
                statistic=evidence.statistic,
                threshold=evidence.threshold,
                statistic_worse=evidence.statistic_worse,
                threshold_worse=evidence.threshold if evidence.threshold_worse is None else evidence.threshold_worse,
            ),
        )
    what = json.dumps([evidence.id, sorted(places.items()), list(unchecked)])
    return replace(
        evidence,
        id="evi_" + hashlib.sha256(what.encode()).hexdigest()[:32],
        raters=tuple(replace(rater, region=places.get(rater.name, "")) for rater in raters.values()),
        unchecked=(*evidence.unchecked, *unchecked),
    )

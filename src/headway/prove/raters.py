"""Who gave the rewards of a log: each rater's share, and the same test had that rater said nothing.

Leaving a rater's rows out of the sum is not enough. Its rewards have taught the reward model, which speaks on every
row; and if it rated only what one policy does, what is left has no row to correct that. So the whole test is run again
beside the first: rows that others rated too keep the others' reward, rows that it alone rated get the mean reward of
all others so far, whatever was done there. Such a row tells nothing about any difference.

Not covered: raters who agree among themselves. Each is left out by itself; of those after the first 64 (`MOST_RATERS`),
only the scores of their own rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.nouns.evidence import Rater
from headway.nouns.records import is_own
from headway.prove.log import Floats, Log
from headway.prove.tally import Mean, ScoreTally

__all__ = ["Known", "Rated", "silenced", "standing"]


class Rated:
    """Σ of the scores of a rater's rows, and how many of them nobody else rated."""

    __slots__ = ("alone", "n", "total")

    def __init__(self) -> None:
        self.n, self.alone, self.total = 0, 0, 0.0

    def add(self, score: Floats, rated: NDArray[np.bool_], alone: NDArray[np.bool_]) -> None:
        self.n += int(rated.sum())
        self.alone += int(alone.sum())
        self.total += float(score[rated].sum())


class Known:
    """The mean of the rewards so far."""

    __slots__ = ("mean",)

    def __init__(self) -> None:
        self.mean = Mean()

    def add(self, reward: Floats) -> None:
        self.mean.add(reward[~np.isnan(reward)])

    def before(self, reward: Floats) -> Floats:
        """[n]; the mean of all rewards before each row, which are known after it; NaN before the first."""
        known = np.where(np.isnan(reward), 0.0, reward)
        seen = ~np.isnan(reward)
        total = self.mean.total + np.cumsum(known) - known
        count = self.mean.n + np.cumsum(seen) - seen
        found: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return found


def silenced(chunk: Log, rater: str, known: Known) -> Log:
    """The chunk, had this rater said nothing; `known` is what others have told, and learns what they tell here."""
    told = chunk.without.get(rater, chunk.reward)
    reward = np.where(np.isnan(told) & ~np.isnan(chunk.reward), known.before(told), told)
    known.add(told)
    return replace(chunk, reward=reward, raters={}, without={}, segments={}, guards={}, keys=None, sources=None)


class _Test(Protocol):
    @property
    def tally(self) -> ScoreTally: ...

    def threshold(self, alpha: float) -> float: ...


def standing(
    raters: Mapping[str, Rated], without: Mapping[str, _Test], tally: ScoreTally, *, alpha: float, margin: float,
    threshold: float,
) -> tuple[Rater, ...]:  # fmt: skip
    """Every rater with its shares and what the rule says without it, most rows first."""
    found = []
    n, total = tally.n, tally.scores.total
    whole = total - margin * n
    for name, each in raters.items():
        test, own = without.get(name), is_own(name)
        if test is not None:
            statistic, limit = test.tally.scores.total - margin * test.tally.n, test.threshold(alpha)
        elif own:
            statistic, limit = 0.0, 0.0
        else:  # came too late to be left out from the start: its own rows, at least
            statistic, limit = total - each.total - margin * (n - each.n), threshold
        found.append(
            Rater(
                name=name,
                rows=each.n,
                share=each.n / n if n else 0.0,
                uplift=1.0 - statistic / whole if whole > 0.0 and not own else None,
                own=own,
                others=n - each.alone,
                statistic=statistic,
                threshold=limit,
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.rows, each.name)))

"""Keep or revert: a sequential test on pairs of measurements, the proposal's and the base's, taken side by side.

With a declared range the test is a bet on the mean difference (`headway.prove.betting`), exact for any measurements in
that range. Without one it counts wins and losses (`e_process`): if a proposal changes nothing, a pair is won as often
as it is lost, whatever the noise looks like, because the order within a pair is drawn. It then answers "is it better
more often than not", not "is it better on average". Either may be read after every pair: a proposal without effect is
ever kept with probability at most alpha.

All tests of a run share one error budget by e-LOND, as those of the gate do (`share_of`).

Looking may also stop a test early: once the proposal is shown to be worse, or can no longer be shown to be better
within `repeats` pairs. That only ever reverts.
"""

from __future__ import annotations

from itertools import count
from math import ceil, log
from typing import Literal

import numpy as np

from headway.prove import Bets, e_process

Ruling = Literal["kept", "reverted", "open"]
_MOST_GAIN = log(1.8)  # of one bet: no stake exceeds 0.8 of what a pair can lose


def least_repeats(alpha: float, *, width: float | None = None) -> int:
    """The pairs that are needed to keep a proposal that wins every one of them."""
    limit = log(1.0 / alpha)
    if width is not None:
        return ceil(limit / _MOST_GAIN)
    return next(pairs for pairs in count(1) if e_process(pairs, 0) >= limit)


def share_of(alpha: float, *, tested: int, kept: int, rounds: int) -> float:
    """What the next test of a run may spend of `alpha`: the shares of all tests, if nothing is kept, add up to it.

    The planned rounds share nine tenths evenly; rounds that are added later share the rest.
    """
    late = tested - rounds + 1
    return alpha * (kept + 1) * (0.9 / rounds if late <= 0 else 0.1 / (late * (late + 1)))


class PairedTest:
    """`add` one pair at a time, in units where more is better; `ruling` says what follows."""

    def __init__(self, *, alpha: float, repeats: int, margin: float = 0.0, width: float | None = None) -> None:
        """`width`: of the range in which every measurement lies; None: not known."""
        self._limit, self._repeats, self._margin, self._width = log(1.0 / alpha), repeats, margin, width
        self._better, self._worse = Bets(alpha, repeats), Bets(alpha, repeats)
        self.differences: list[float] = []
        self.wins = self.losses = 0

    def add(self, candidate: float, base: float) -> Ruling:
        difference = candidate - base
        self.differences.append(difference)
        self.wins += difference > self._margin
        self.losses += difference < self._margin
        if self._width is not None:
            self._bet(difference, self._width)
        return self.ruling

    @property
    def pairs(self) -> int:
        return len(self.differences)

    @property
    def gain(self) -> float:
        """The mean difference; 0 before the first pair."""
        return float(np.mean(self.differences)) if self.differences else 0.0

    @property
    def ruling(self) -> Ruling:
        better, worse, best = self._wealth()
        if better >= self._limit:
            return "kept"
        if worse >= self._limit or best < self._limit or self.pairs >= self._repeats:
            return "reverted"
        return "open"

    @property
    def why(self) -> str:
        """The ruling in words."""
        seen = f"{self.wins} pairs won, {self.losses} lost of {self.pairs}"
        if self.ruling == "kept":
            return seen
        return f"not shown to be better: {seen}" if self.ruling == "reverted" else seen

    def _bet(self, difference: float, width: float) -> None:
        earlier = np.array([-width / 2.0, width / 2.0, *self.differences[:-1]])  # before the first: the widest spread
        variance, scores = float(earlier.var(ddof=1)), np.array([difference])
        self._better.add(scores - self._margin, np.array([-width - self._margin]), variance)
        self._worse.add(self._margin - scores, np.array([-width + self._margin]), variance)

    def _wealth(self) -> tuple[float, float, float]:
        """ln E that it is better, that it is worse, and the first one if every pair that is left were won."""
        left = max(0, self._repeats - self.pairs)
        if self._width is None:
            better, worse = e_process(self.wins, self.losses), e_process(self.losses, self.wins)
            return better, worse, e_process(self.wins + left, self.losses)
        better = self._better.log_wealth()
        return better, self._worse.log_wealth(), better + left * _MOST_GAIN

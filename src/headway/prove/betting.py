"""The gate's test: a bet on every row that the candidate is better, which only a better candidate can win for long.

A gambler starts with 1 and stakes λ of its wealth on each score: E = Π (1 + λ (score − m)). If the mean of the scores
is at most m, the wealth is a nonnegative supermartingale: it ever reaches 1/α with probability at most α, however often
it is read (Ville). This is exact for any bounded rewards, rare disasters included; no variance is estimated for it
(Waudby-Smith and Ramdas, 2024, "Estimating means of bounded random variables by betting").

λ is chosen before the rows that it is used on, and is the same for all of them: a stake that depended on the row would
test a weighted mean. It never exceeds what the lowest possible score can cost. Several gamblers with different λ share
the starting money; E is their sum. Their spread suits any effect that 5,000 rows can show, or the registered horizon.

**Bounds.** A mean m is excluded once a bet against "the mean is at most m" has won 1/α. Two rules keep that true and
computable, also on the rows on which both policies give equal probabilities and nothing can be learned:

- Such rows win nothing, and count in the mean. For a row that is drawn like all others, x − m is bet on with x = 0,
  which is exact for any share of such rows (the share is a part of what is estimated). For the rows of this log, in
  whatever order the policies agree, the differing rows are bet on at m · rows / differing rows, which is exact given
  the pattern of agreement. m is excluded if both bets exclude it, so the bound is true in both senses, at all times.
- A gambler never excludes a mean above the one of its own rows: stakes that changed may have weighted them unevenly.

A policy that is good for 3,000 rows and bad afterwards has won the bets against it so much that they never recover. So
a guard's gamblers start again after 256, 512, 1,024, … rows, with a share of the starting money that was set aside for
them: E stays a sum of bets, and the bound holds for all of them together (an e-detector with a fixed budget; Shin,
Ramdas and Rinaldo, 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from headway.prove.log import Floats
from headway.prove.sequential import TUNED_AT, quantile

BETTING = "betting"
GAMBLERS = 16
MOST = 0.8  # the largest share of the wealth that one row may take
_AROUND = (0.7, 1.0, 1.4)  # a registered test stakes the best λ for its horizon, and two neighbours
_AROUND_SHARES = (0.2, 0.6, 0.2)
_BLOCKS = 200  # a test that ends chooses a new stake so often
_MOST_MISSING = 50.0
_BEYOND = 0.02  # of the logarithm of the wealth: how far beyond its threshold it is kept
RESTARTS = (0, *(256 * 2**k for k in range(10)))  # rows after which a guard's gamblers start
LATE_SHARE = 0.2  # of the starting money: for those that start later
_DIFFER, _AGREE = 0, 1  # kinds of rows: those on which the policies differ, and the others
TUNED_FOR_HARM = 200  # a guard looks for harm that this many rows can show


@lru_cache(maxsize=256)
def stakes(alpha: float, horizon: int | None, tuned_at: int = TUNED_AT) -> tuple[Floats, Floats]:
    """λ·√variance of the gamblers and ln of their starting shares."""
    if horizon is not None:
        best = sqrt(2.0 * log(1.0 / alpha) / horizon)
        return best * np.array(_AROUND), np.log(_AROUND_SHARES)
    spent = -2.0 * log(2.0 * min(alpha, 0.4))
    width = sqrt((spent + log(spent + 1.0)) / tuned_at)
    places = (np.arange(GAMBLERS) + 0.5) / GAMBLERS
    half_normal = np.array([quantile(0.5 + 0.5 * place) for place in places])
    return width * half_normal, np.full(GAMBLERS, -log(GAMBLERS))


class Bets:
    """The wealth of the gamblers, from sums in constant memory; any m can be asked about afterwards.

    `guard`: the gamblers look for harm that may begin late (`RESTARTS`). `ends`: no row after the horizon is bet on,
    and the stakes aim at exceeding `margin`.
    """

    def __init__(
        self,
        alpha: float,
        horizon: int | None = None,
        *,
        guard: bool = False,
        ends: bool = False,
        margin: float = 0.0,
    ) -> None:
        self.alpha, self._margin = alpha, margin
        self.stakes, self.shares = stakes(alpha, horizon, TUNED_FOR_HARM if guard else TUNED_AT)
        self._most = MOST
        self._ends = horizon if ends else None  # one gambler, who looks at what is left
        if self._ends is not None:
            self.stakes, self.shares = self.stakes[1:2], np.zeros(1)
        self.starts = np.zeros(self.stakes.size)  # rows before a gambler's first bet
        if guard:
            self.starts = np.repeat(np.array(RESTARTS, dtype=np.float64), self.stakes.size)
            late = [LATE_SHARE / (k * (k + 1)) for k in range(1, len(RESTARTS))]  # Σ 1/(k(k+1)) < 1
            self.shares = np.concatenate([self.shares + log(share) for share in (1.0 - LATE_SHARE, *late)])
            self.stakes = np.tile(self.stakes, len(RESTARTS))
        self.n, self.total = 0, 0.0
        self.rows = np.zeros(self.stakes.size)  # since the gambler's first bet
        self.differing = np.zeros(self.stakes.size)  # of these, rows on which the policies differ
        self.gain = np.zeros(self.stakes.size)  # Σ x since the gambler's first bet
        self.wealth = np.zeros(self.stakes.size)  # Σ ln(1 + λ x)
        self.slopes = _Slopes(self.stakes.size)
        self.lowest = 0.0  # the lowest score that was possible so far

    def add(
        self, scores: Floats, lowest: Floats, variance: Floats | float, differs: NDArray[np.bool_] | None = None
    ) -> Floats:
        """Bet on rows in their order; returns what each gambler won on each row, [gambler, n] in logarithms.

        `lowest` [n]: no score of the row can be below it. `variance`: an estimate of the scores' variance. `differs`
        [n]: whether the two policies give different probabilities. All may depend on everything that was known before
        the row's action was drawn; a wrong variance costs power, never validity.
        """
        if scores.size == 0:
            return np.zeros((self.stakes.size, 0))
        lowest = np.minimum(np.minimum.accumulate(lowest), self.lowest)
        self.lowest = float(lowest[-1])
        risk = np.maximum(-lowest, 1e-12)
        scale = 1.0 / np.sqrt(np.maximum(variance, 1e-24)) * np.ones(scores.size)
        if self._ends is not None:
            return self._add_blocks(scores, risk, scale, differs, max(1, self._ends // _BLOCKS))
        return self._add(scores, risk, scale, differs)

    def _add_blocks(
        self, scores: Floats, risk: Floats, scale: Floats, differs: NDArray[np.bool_] | None, size: int
    ) -> Floats:
        """Bet on a test that ends, with a new stake after every `size` rows, by what is missing and what is left."""
        won, start = [], 0
        while start < scores.size:
            stop = min(scores.size, start + size - self.n % size)
            cut = slice(start, stop)
            if self.n % size == 0:
                self._choose_stake()
            won.append(self._add(scores[cut], risk[cut], scale[cut], None if differs is None else differs[cut]))
            start = stop
        return np.concatenate(won, axis=1)

    def _choose_stake(self) -> None:
        """The best λ for what is missing of the wealth and the rows that are left."""
        missing = log(1.0 / self.alpha) - max(float((self.wealth + self._moved(self._margin))[0]), -_MOST_MISSING)
        if missing > -_BEYOND:
            left = max(1, (self._ends or 0) - self.n)
            self.stakes = np.array([sqrt(2.0 * (missing + 2.0 * _BEYOND) / left)])
            self._most = MOST
        else:  # won: what is beyond the threshold goes on betting
            self._most = min(MOST, 1.0 - exp(missing + _BEYOND / 2.0))

    def _add(self, scores: Floats, risk: Floats, scale: Floats, differs: NDArray[np.bool_] | None) -> Floats:
        """`risk` [n]: what a row can cost per unit of its stake; `scale` [n]: 1 / its score's standard deviation."""
        waits = self.starts[:, None] > np.arange(self.n, self.n + scores.size) if self.starts[-1] > self.n else None
        self.n += scores.size
        self.total += float(scores.sum())
        rate = np.multiply.outer(self.stakes, scale)
        np.minimum(rate, self._most / risk, out=rate)
        active = None if waits is None else ~waits
        if active is not None:
            rate *= active
        self.rows += scores.size if active is None else active.sum(axis=1)
        if differs is None or differs.all():
            return self._bet(scores, rate, active)
        self.slopes.add(_AGREE, rate[:, ~differs])
        won = np.zeros(rate.shape)
        won[:, differs] = self._bet(scores[differs], rate[:, differs], None if active is None else active[:, differs])
        return won

    def _bet(self, scores: Floats, rate: Floats, active: NDArray[np.bool_] | None) -> Floats:
        """Bet on rows on which the policies differ; `rate` is overwritten."""
        self.differing += scores.size if active is None else active.sum(axis=1)
        self.gain += scores.sum() if active is None else active @ scores
        factor = 1.0 + rate * scores
        won: Floats = np.log(factor)
        self.wealth += won.sum(axis=1)
        self.slopes.add(_DIFFER, np.divide(rate, factor, out=rate))
        return won

    def log_wealth(self, mean: float = 0.0, *, less: Floats | float = 0.0) -> float:
        """ln E against "the mean is at most `mean`"; exact at 0, elsewhere at most the exact value.

        `less` [gambler] is what some rows won, to leave them out.
        """
        if self.n == 0:
            return 0.0
        wealth = self.wealth - less
        if mean != 0.0:
            wealth = wealth + self._moved(mean)
        wealth = self.shares + np.where(mean * self.rows < self.gain, wealth, np.minimum(wealth, 0.0))
        top = float(wealth.max())
        return top + log(float(np.exp(wealth - top).sum())) if top > -inf else -inf

    def _moved(self, mean: float) -> Floats:
        """[gambler]; what the wealth at another mean differs by from that at 0, at most."""
        agreed = bool(self.slopes.most[_AGREE].any())
        unknown = inf if mean < 0.0 else -inf  # before the first row on which the policies differ
        if mean == 0.0:
            return np.where((self.differing > 0.0) | (not agreed), 0.0, unknown)
        if not agreed:
            alone: Floats = self.slopes.moved([_DIFFER], np.full((1, self.stakes.size), mean))[0]
            return alone
        means = np.full((3, self.stakes.size), mean)
        means[2] = mean * self.rows / np.maximum(self.differing, 1.0)
        drawn, agree, here = self.slopes.moved([_DIFFER, _AGREE, _DIFFER], means)
        least: Floats = np.minimum(drawn + agree, np.where(self.differing > 0.0, here, unknown))
        return least

    def lower_bound(self, least: float, passed: float = 0.0) -> float:
        """All means below this one are excluded, at all times at once; `least` if no higher one is.

        `passed`: the mean that a verdict is about. If it is excluded, the bound is not below it, by no rounding.
        """
        limit = log(1.0 / self.alpha)
        if self.n == 0:
            return least

        def excess(mean: float) -> float:
            return max(self.log_wealth(mean) - limit, -50.0)

        high = float((self.gain / np.maximum(self.rows, 1.0)).max())
        if least < passed < high and excess(passed) >= 0.0:
            return _crossing(excess, (passed, excess(passed)), (high, excess(high)))
        # about σ/n, from the stakes
        spread = float(self.stakes[0]) / max(float(self.slopes.total[:, 0].sum()), 1e-24)
        above, step = (high, excess(high)), 1.5 * spread * sqrt(2.0 * limit * self.n)
        while above[0] > least:
            low, step = max(above[0] - step, least), 2.0 * step
            below = low, excess(low)
            if below[1] >= 0.0:
                return _crossing(excess, below, above)
            above = below
        return least


class _Slopes:
    """[kind of row, gambler]; sums over rows of y = λ / (1 + λ x), which say how the wealth changes with the mean.

    ln(1 + λ(x − m)) = ln(1 + λx) + ln(1 − m·y), and the second part is bounded from below by Σ y, Σ y² and the largest
    y. The bound falls in m, like the wealth.
    """

    def __init__(self, gamblers: int) -> None:
        self.total, self.square, self.most = np.zeros((3, 2, gamblers))

    def add(self, kind: int, y: Floats) -> None:
        self.total[kind] += y.sum(axis=1)
        self.square[kind] += np.einsum("ij,ij->i", y, y)
        np.maximum(self.most[kind], y.max(axis=1, initial=0.0), out=self.most[kind])

    def moved(self, kinds: list[int], means: Floats) -> Floats:
        """At most Σ ln(1 − mean · y), for means [kind, gambler] of one sign.

        mean > 0: ln(1 − u) ≥ −u − c·u² up to the largest u. mean < 0: ln(1 + u) ≥ u − u²/2, and ≥ u times the slope of
        the chord to the largest u.
        """
        size, total, square = np.abs(means), self.total[kinds], self.square[kinds]
        most = np.maximum(size * self.most[kinds], 1e-12)
        if means[0, 0] <= 0.0:
            near = np.minimum(size, total / np.maximum(square, 1e-300))  # from there on the parabola falls
            parabola = near * total - 0.5 * near**2 * square
            return np.maximum(parabola, size * total * np.log1p(most) / most)
        safe = np.minimum(most, 0.9)
        small = safe < 1e-3
        bend = np.where(small, 0.5 + safe / 2.0, (-np.log1p(-safe) - safe) / np.where(small, 1.0, safe**2))
        return np.where(most > 0.9, -inf, -size * total - bend * size**2 * square)


def _crossing(excess: Callable[[float], float], below: tuple[float, float], above: tuple[float, float]) -> float:
    """A point where a falling function is at most a hundredth above 0: regula falsi that halves an end (Illinois).

    `below` and `above` are points with their values, at least 0 and under it.
    """
    (low, at_low), (high, at_high) = below, above
    kept = 0
    for _ in range(60):
        if at_low < 1e-2 or at_high >= 0.0:
            break
        middle = low + (high - low) * at_low / (at_low - at_high)
        value = excess(middle)
        if 0.0 <= value < 1e-2:
            return middle
        if value >= 0.0:
            low, at_low, at_high, kept = middle, value, at_high / 2.0 if kept > 0 else at_high, 1
        else:
            high, at_high, at_low, kept = middle, value, at_low / 2.0 if kept < 0 else at_low, -1
    return low

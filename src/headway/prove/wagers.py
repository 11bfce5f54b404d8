"""Both sides of the gate's bet on a log: that the candidate is better, and that it is worse.

Knows what a score of a row can be at most and at least, from the logged probabilities and the range of the rewards, and
what a row with an unknown reward is worth in the worst case of each side. Of a row that was deleted, situation and
probabilities are unknown too: it is worth the least that its action can be in any situation so far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headway.prove.betting import Bets
from headway.prove.log import DELETED, Floats, Log

_SAME = 1e-9  # probabilities that differ by no more are equal
# Of the range of the rewards: no stake risks more than one for which a score could be this low. Without it, rows on
# which the policies hardly differ would be bet on with stakes at which no bound can be computed.
_LEAST_RISK = 0.1
_FEWEST = 0.05  # of the rows: the policies are taken to differ on at least so many, until scores tell


class Wagers:
    """`better` and `worse` are the bets; `variance` is the scores' variance that the stakes of the next rows go by.

    `margin`: what a test with a horizon is to exceed.
    `reward_range`: no reward can be outside. Without it, the range of the rewards so far is used, at least [0, 1].
    """

    def __init__(
        self,
        alpha: float,
        alpha_worse: float,
        horizon: int | None,
        reward_range: tuple[float, float] | None,
        *,
        guard: bool = False,
        margin: float = 0.0,
    ) -> None:
        self.better = Bets(alpha, horizon, ends=horizon is not None, margin=margin)
        self.worse = Bets(alpha_worse, horizon, guard=guard, ends=horizon is not None and not guard)
        self.variance = 0.0  # 0: not known yet
        self.low, self.high = reward_range or (0.0, 1.0)
        self.at_worst = self.deleted = 0  # rows that count at their worst value; of these, those that were deleted
        self.missing_width = 0.0  # Σ of how far the scores of these rows may be off
        self._extremes: Floats = np.zeros((3, 1))  # by arm: the lowest and the highest score so far, the largest weight
        self._fixed = reward_range is not None
        self._guess = (0.0, 0, 0)  # of the first rows: Σ of their guessed variances, rows, rows above 0

    @property
    def width(self) -> float:
        """Of the range of the rewards: no policy can be better or worse than another by more."""
        return self.high - self.low

    def bounds(self, margin: float = 0.0) -> tuple[float, float]:
        """The differences that the bets do not exclude, each side at its alpha; the mean of the scores is inside.

        The mean can be outside what the gamblers of a guard found in the latest rows (`RESTARTS`).
        """
        mean = self.better.total / max(self.better.n, 1)
        least = -self.width
        mean = min(max(mean, least), -least)
        return min(self.better.lower_bound(least, margin), mean), max(-self.worse.lower_bound(least), mean)

    def add(self, piece: Log, inside: NDArray[np.bool_], difference: Floats, q: Floats) -> tuple[Floats, Floats]:
        """Bet on the rows `inside` the test; returns what each side won, [gambler, n] in logarithms, 0 if no bet.

        `difference` [n, arm] is π − b, `q` [n, arm] the reward model's estimate from earlier rows.
        """
        low, high = self._range(piece.reward)
        rows, action = np.arange(len(piece)), piece.action
        possible = piece.logged > 0.0
        weights = np.where(possible, difference / np.where(possible, piece.logged, 1.0), 0.0)
        direct = np.einsum("ij,ij->i", difference, q)
        at_low, at_high = weights * (low[:, None] - q), weights * (high[:, None] - q)
        least, most = direct[:, None] + np.minimum(at_low, at_high), direct[:, None] + np.maximum(at_low, at_high)
        self._extremes = np.stack([
            np.minimum(self._extremes[0], least.min(axis=0)),
            np.maximum(self._extremes[1], most.max(axis=0)),
            np.maximum(self._extremes[2], np.abs(weights).max(axis=0)),
        ])  # fmt: skip
        differs = np.abs(difference).max(axis=1) > _SAME
        risk = _LEAST_RISK * (high - low)
        lowest = np.minimum(least.min(axis=1), -risk)
        highest = np.maximum(most.max(axis=1), risk)
        weight = weights[rows, action]
        score = direct + weight * (piece.reward - q[rows, action])
        against = -score
        worst = piece.worst & np.isnan(piece.reward)
        if worst.any():
            score[worst], against[worst] = least[rows, action][worst], -most[rows, action][worst]
        deleted = worst & (piece.status == DELETED)
        if deleted.any():
            worth, limit, heaviest = self._extremes[:, action[deleted]]
            score[deleted], against[deleted], weight[deleted] = worth, -limit, heaviest
            lowest[deleted], highest[deleted] = np.minimum(lowest[deleted], worth), np.maximum(highest[deleted], limit)
            differs[deleted] = heaviest > 0.0
        counted = worst & inside
        self.at_worst += int(counted.sum())
        self.deleted += int((deleted & inside).sum())
        self.missing_width += float((np.abs(weight) * (high - low))[counted].sum())
        used = inside & ~np.isnan(score)
        variance = self.variance if self.variance > 0.0 else self._guessed(weights, difference, high - low)[used]
        won, lost = (np.zeros((bets.stakes.size, len(piece))) for bets in (self.better, self.worse))
        won[:, used] = self.better.add(score[used], lowest[used], variance, differs[used])
        lost[:, used] = self.worse.add(against[used], -highest[used], variance, differs[used])
        return won, lost

    def _guessed(self, weights: Floats, difference: Floats, width: Floats) -> Floats:
        """[n]; the variance of a score before any was seen: for rewards as noisy as their range allows."""
        noise = np.einsum("ij,ij->i", weights, difference) * (0.5 * width) ** 2
        total, count, differing = self._guess
        totals, differings = total + np.cumsum(noise), differing + np.cumsum(noise > 0.0)
        counts = count + np.arange(1, noise.size + 1)
        if noise.size:
            self._guess = float(totals[-1]), int(counts[-1]), int(differings[-1])
        known = np.where(differings > 0, totals, (0.5 * width) ** 2)  # before the first: as if the policies differed
        guess: Floats = np.maximum(known / np.minimum(counts, np.maximum(differings, 1) / _FEWEST), 1e-12)
        return guess

    def _range(self, reward: Floats) -> tuple[Floats, Floats]:
        """[n], [n]; the lowest and the highest possible reward of each row."""
        if self._fixed or not reward.size:
            return np.full(reward.size, self.low), np.full(reward.size, self.high)
        unknown = np.isnan(reward)
        low = np.minimum(np.minimum.accumulate(np.where(unknown, self.low, reward)), self.low)
        high = np.maximum(np.maximum.accumulate(np.where(unknown, self.high, reward)), self.high)
        self.low, self.high = float(low[-1]), float(high[-1])
        return low, high

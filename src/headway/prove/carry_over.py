"""Whether the action of one decision changes the outcome of the next one.

A proof adds up decisions as if each had its own outcome. If an action uses up a budget, makes users impatient or
changes what they ask next, a policy that looks better per decision can be worse as a whole. The draws show it: the
action of the decision before was drawn with known probabilities, so that, without such an effect,

    Σ (1[A(t−1) = a] − μ(t−1, a)) · (r(t) − mean of earlier rewards after A(t))

is a sum of uncorrelated terms of mean 0 and known variance. "The decision before" is the last one of all, and the last
one of the same user, episode or other group within a piece of the log. Not covered: effects of a share (an upstream
that saturates), which no single decision shows.
"""

from __future__ import annotations

from math import log

import numpy as np

from headway.prove.calibration import FALSE_ALARM, PLACES, Misfit, exponent
from headway.prove.log import DELETED, Floats, Log

_ALL = ""  # the name of the grouping that has every decision in one group


class CarryOver:
    """Running sums of one log; pieces come in the order of the decisions."""

    def __init__(self, arms: int) -> None:
        self._arms = arms
        self._rewards, self._counts = np.zeros(arms), np.zeros(arms)
        self._last: Floats = np.zeros((2, 1, arms))  # of the last decision: its draw less its probabilities, variances
        self._sums: dict[str, Floats] = {}  # grouping → [total and variance, arm]
        self._largest = 0.0

    def add(self, piece: Log) -> None:
        """Add rows."""
        seen = ~np.isnan(piece.reward)
        means = self._rewards / np.maximum(self._counts, 1.0)
        residual = np.where(seen & (self._counts[piece.action] > 0), piece.reward - means[piece.action], 0.0)
        draws = np.stack([-piece.logged, piece.logged * (1.0 - piece.logged)])  # [2, n, arm]
        draws[0, np.arange(len(piece)), piece.action] += 1.0
        if piece.origin is not None and piece.origin.chosen_only is not None:
            draws[:, piece.origin.chosen_only] = 0.0  # the other probabilities are unknown
        draws[:, piece.status == DELETED] = 0.0
        self._largest = max(self._largest, float(np.abs(residual).max(initial=0.0)))
        self._add(_ALL, np.concatenate([self._last, draws[:, :-1]], axis=1), residual)
        self._last = draws[:, -1:]
        for name, codes in ({} if piece.origin is None else piece.origin.groups).items():
            codes = codes % PLACES  # as in the check of repetition, so that a packed log gives the same sums
            order = np.argsort(codes, kind="stable")
            again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
            self._add(name, draws[:, order[again]], residual[order[again + 1]])
        self._rewards += np.bincount(piece.action[seen], weights=piece.reward[seen], minlength=self._arms)
        self._counts += np.bincount(piece.action[seen], minlength=self._arms)

    def _add(self, name: str, before: Floats, residual: Floats) -> None:
        """Add pairs of a draw [2, n, arm] and the outcome that follows it."""
        sums = self._sums.setdefault(name, np.zeros((2, self._arms)))
        sums[0] += residual @ before[0]
        sums[1] += (residual * residual) @ before[1]

    def worst(self, arms: tuple[str, ...]) -> Misfit | None:
        """The grouping and the action with the clearest effect; None if nothing can be tested."""
        tested = {name: sums for name, sums in self._sums.items() if sums[1].any()}
        if not tested or self._largest == 0.0:
            return None
        limit = log(2.0 * self._arms * len(tested) / FALSE_ALARM)
        surprise = {name: exponent(sums[0], sums[1], self._largest) for name, sums in tested.items()}
        name = max(surprise, key=lambda name: float(surprise[name].max()))
        arm = int(surprise[name].argmax())
        value = float(surprise[name][arm])
        if value <= limit:
            return Misfit(value=value, limit=limit, message="outcomes do not depend on the decision before")
        effect = tested[name][0, arm]
        whose = f"of the same {name} " if name else ""
        message = (
            f"Cannot tell: outcomes are {'higher' if effect > 0.0 else 'lower'} where the decision {whose}before took "
            f"{arms[arm]!r}, so the decisions cannot be judged one by one"
        )
        return Misfit(value=value, limit=limit, message=message)

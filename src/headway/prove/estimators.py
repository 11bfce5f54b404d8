"""What a policy would have earned, from the log of another one: the doubly robust value of each decision.

With w = π(A|x)/μ(A|x), m = Σ_a π(a|x) q(x, a) and e = r − q(x, A), a decision counts m + w e (Dudík, Langford and Li,
2011). The kit audit has other estimators.
"""

from __future__ import annotations

import numpy as np

from headway.nouns import Estimate
from headway.prove.log import Floats, Log
from headway.prove.reward_model import held_out_predictions
from headway.prove.spread import ScoreSpread

FOLDS = 5


def terms(log_: Log, policy: Floats, q: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """w, m and q(x, A) of a policy [n, arm] on a log; without a reward model m and q are 0."""
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

"""Reward models for doubly robust scores: ridge regressions per arm.

One linear model shared by all arms, plus per arm an offset and a linear correction, each shrunk by a strength chosen by
generalised cross-validation (Golub, Heath and Wahba, 1979). Only sums (Gram matrices) are kept, so a refit
does not read the rows again and memory does not grow with them. Features wider than `WIDEST` are first
projected by a fixed random matrix (Johnson-Lindenstrauss), because Gram matrices are quadratic.

Not covered: interactions and curvature; a wrong reward model costs power, never validity, since propensities are known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.prove.log import Floats, Integers

WIDEST = 160
MOST_NUMBERS = 8_000_000  # of all arms' Gram matrices together
OFFSET_PRIOR = 2.0  # rows' worth of shrinkage of an arm's offset to the shared model
STRENGTHS: Floats = np.append(np.logspace(0.0, 6.0, 13), np.inf)


def narrow(features: Floats, arms: int) -> Floats:
    """[n, 1 + d]; a leading one, and the features, projected if they are too wide."""
    n, width = features.shape
    limit = max(8, min(WIDEST, int(np.sqrt(MOST_NUMBERS / max(arms, 1)))))
    if width > limit:
        matrix = np.random.default_rng(20_240_229).standard_normal((width, limit)) / np.sqrt(limit)
        features = features @ matrix
        width = limit
    x = np.empty((n, width + 1))
    x[:, 0] = 1.0
    x[:, 1:] = features
    return x


@dataclass(frozen=True, slots=True)
class ArmRidges:
    """q(x, arm) = weights[arm] · x, clipped to the range of its training rewards."""

    weights: Floats  # [arm, 1 + d]
    low: float
    high: float

    def predict(self, x: Floats) -> Floats:
        """[n, arm] for rows prepared by `narrow`."""
        q = x @ self.weights.T
        np.maximum(q, self.low, out=q)
        np.minimum(q, self.high, out=q)
        return q


class ArmSums:
    """Sufficient statistics of rewards per arm; `fit` solves them."""

    def __init__(self, arms: int, width: int) -> None:
        self.gram = np.zeros((arms, width, width))  # Σ x xᵀ
        self.cross = np.zeros((arms, width))  # Σ x r
        self.square = np.zeros(arms)  # Σ r²
        self.count = np.zeros(arms)
        self.low = np.inf
        self.high = -np.inf

    def add(self, x: Floats, action: Integers, reward: Floats) -> None:
        """Rows with rewards (no NaN); x prepared by `narrow`."""
        if reward.size == 0:
            return
        for arm in np.unique(action):
            rows = action == arm
            features, r = x[rows], reward[rows]
            self.gram[arm] += features.T @ features
            self.cross[arm] += r @ features
            self.square[arm] += r @ r
            self.count[arm] += r.size
        self.low = min(self.low, float(reward.min()))
        self.high = max(self.high, float(reward.max()))

    def less(self, other: ArmSums) -> ArmSums:
        """These sums without the rows of `other`: all folds but one."""
        rest = ArmSums(0, 0)
        rest.gram, rest.cross = self.gram - other.gram, self.cross - other.cross
        rest.square, rest.count = self.square - other.square, self.count - other.count
        rest.low, rest.high = self.low, self.high
        return rest

    def fit(self) -> ArmRidges | None:
        """The model of all rows added so far; None if there are none."""
        n = float(self.count.sum())
        if n <= 0:
            return None
        arms, width = self.cross.shape
        gram, cross = self.gram.sum(axis=0), self.cross.sum(axis=0)
        mean = gram[0] / n
        spread = np.sqrt(np.maximum(np.diag(gram) / n - mean**2, 0.0))
        live = spread > 1e-9 * (1.0 + np.abs(mean))
        live[0] = False
        # [width, width]: x̃ = change · x = (1, (x − mean) / spread); columns that never vary become 0
        change = np.zeros((width, width))
        scale = np.where(live, 1.0 / np.where(live, spread, 1.0), 0.0)
        np.fill_diagonal(change, scale)
        change[:, 0] = -mean * scale
        change[0, 0] = 1.0
        shared = np.zeros(width)
        shared[0] = cross[0] / n
        total = float(self.square.sum() - cross[0] ** 2 / n)
        if live.any():
            centred = (change @ gram @ change.T)[1:, 1:]
            slope, _ = _ridge(centred[None], (change @ cross)[None, 1:], total, n, used=1.0)
            shared[1:] = slope[0]
        grams = change @ self.gram @ change.T  # [arm, width, width]
        rest = self.cross @ change.T - grams @ shared  # Σ x̃ (r − shared · x̃)
        offset = rest[:, 0] / (self.count + OFFSET_PRIOR)
        squares = self.square - 2.0 * (self.cross @ change.T) @ shared + grams @ shared @ shared
        squares += -2.0 * offset * rest[:, 0] + offset**2 * self.count
        rest = rest - grams[:, :, 0] * offset[:, None]
        weights = np.tile(shared, (arms, 1))
        weights[:, 0] += offset
        if arms > 1:
            correction, _ = _ridge(grams, rest, float(squares.sum()), n, used=float(arms))
            weights += correction
        return ArmRidges(weights @ change, self.low, self.high)


def _ridge(gram: Floats, cross: Floats, total: float, n: float, used: float) -> tuple[Floats, float]:
    """Slopes [m, d] of m ridge problems that share one strength, chosen by generalised cross-validation.

    GCV(λ) = RSS(λ) / (n − df(λ))²; `total` is the sum of squares before fitting, `used` the degrees already spent.
    """
    value, vector = np.linalg.eigh(gram)  # [m, d], [m, d, d]
    value = np.maximum(value, 0.0)
    z = (np.swapaxes(vector, 1, 2) @ cross[:, :, None])[:, :, 0]
    shrink = np.zeros((len(STRENGTHS), *value.shape))  # 1 / (value + λ)
    shrink[:-1] = 1.0 / (value + STRENGTHS[:-1, None, None])
    explained = (z**2 * (2.0 * shrink - value * shrink**2)).sum(axis=(1, 2))
    degrees = used + (value * shrink).sum(axis=(1, 2))
    left = np.maximum(n - degrees, 0.05 * n)  # never let a saturated fit win
    best = int((np.maximum(total - explained, 1e-12) / left**2).argmin())
    return (vector @ (shrink[best] * z)[:, :, None])[:, :, 0], float(STRENGTHS[best])


def held_out_predictions(features: Floats, action: Integers, reward: Floats, fold: Integers, *, arms: int) -> Floats:
    """[n, arm]; each row predicted by a model of the rows with a reward in the other folds, 0 if there are none."""
    x, seen = narrow(features, arms), ~np.isnan(reward)
    parts, whole = [], ArmSums(arms, x.shape[1])
    for part in range(int(fold.max(initial=-1)) + 1):
        mine = seen & (fold == part)
        sums = ArmSums(arms, x.shape[1])
        for each in (sums, whole):
            each.add(x[mine], action[mine], reward[mine])
        parts.append(sums)
    q = np.zeros((len(action), arms))
    for part, sums in enumerate(parts):
        model = whole.less(sums).fit()
        if model is not None:
            q[fold == part] = model.predict(x[fold == part])
    return q

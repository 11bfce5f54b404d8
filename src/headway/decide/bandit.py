"""The contextual bandit: a posterior over each arm's reward, linear in the features or by clusters of them.

    bandit.distribution(situation, candidates, seed=7)          # Opinion: probabilities, mean, std, confidence
    bandit.opinions(situations, candidates, seeds)              # the same for many, bit for bit

linear    per arm Bayesian ridge: weights ~ N(θ, σ²·P) with P = (λI + Σxxᵀ)⁻¹; the mean is x·θ, the variance σ²·xᵀPx.
clusters  the nearest of C centroids; per cluster and arm a normal posterior, shrunk towards the arm's own mean.

An arm that was never learned starts at the pooled mean with the prior's variance; one that is withdrawn is simply not
among the candidates any more. `mean` is the predicted reward less `cost_weight` × the arm's cost (the knob `costs`,
else the candidate's feature `cost`, else the mean cost of the others). Confidence is P(best beats second) under both
posteriors, taken as independent normals.

Scores are exact sums: features are multiples of 2**-14, weights and covariances are rounded so that every product and
every partial sum fits into 53 bits. So it does not matter in which order, on which machine or in which batch they are
added up.

Not covered: features of candidates other than their cost; arms are told apart by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.decide import explore
from headway.decide.acting import Explorer
from headway.decide.prices import prices
from headway.encode.state import GRID, LIMIT, Features
from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Encoder, Floats, Opinion, Opinions
from headway.nouns.records import Candidate, Situation

__all__ = ["Bandit", "Clusters", "Linear", "Model", "confidence", "confidences", "rounded"]

_FEATURE_BITS = round(math.log2(LIMIT / GRID))  # 17
_ROOT_HALF = math.sqrt(0.5)
_REMEMBERED = 256  # candidate sets


def rounding(width: int, bound: float) -> float:
    """The constant c such that (v + c) − c rounds |v| ≤ bound to what sums exactly against features of this width."""
    bits = 53 - _FEATURE_BITS - math.ceil(math.log2(max(width, 2)))
    _, exponent = math.frexp(max(bound, 1e-300))
    return 1.5 * math.ldexp(1.0, 52 + exponent - bits)


def rounded(values: Floats, bound: float | None = None) -> Floats:
    """Values whose products with features add up exactly in any order; off by at most 2**-26 of the greatest."""
    greatest = float(np.abs(values).max(initial=0.0)) if bound is None else bound
    constant = rounding(values.shape[-1], greatest)
    near: Floats = (values + constant) - constant
    return near


def _two_best(mean: Sequence[float]) -> tuple[int, int]:
    """Where the best and the second best stand; of equal ones the first."""
    best, second = (0, 1) if mean[0] >= mean[1] else (1, 0)
    for place in range(2, len(mean)):
        if mean[place] > mean[second]:
            best, second = (place, best) if mean[place] > mean[best] else (best, place)
    return best, second


def confidence(mean: Sequence[float], std: Sequence[float]) -> float:
    """The probability that the best candidate truly beats the second best."""
    if len(mean) == 1:
        return 1.0
    best, second = _two_best(mean)
    return _beats(mean[best] - mean[second], std[best], std[second])


def _beats(gap: float, one: float, other: float) -> float:
    """P(N(gap, one² + other²) > 0)."""
    return 0.5 + 0.5 * math.erf(gap / math.sqrt(max(one * one + other * other, 1e-300)) * _ROOT_HALF)


def confidences(mean: Floats, std: Floats) -> Floats:
    """[row]: `confidence` of each row, bit for bit."""
    rows, count = mean.shape
    if count == 1:
        return np.ones(rows)
    index = np.arange(rows)
    best = mean.argmax(axis=1)
    rest = mean.copy()
    rest[index, best] = -np.inf
    second = rest.argmax(axis=1)
    one, other = std[index, best], std[index, second]
    spread = one * one + other * other
    z = ((mean[index, best] - mean[index, second]) / np.sqrt(np.maximum(spread, 1e-300)) * _ROOT_HALF).tolist()
    return np.array([0.5 + 0.5 * math.erf(each) for each in z])


class Model(Protocol):
    """Predicts rewards: column j of the result is arm `columns[j]`; the last column of all is an unknown arm."""

    @property
    def arms(self) -> int: ...

    def predict(self, x: Floats, columns: NDArray[np.int64] | None, std: bool) -> tuple[Floats, Floats | None]: ...

    def means_of(self, x: Floats, columns: NDArray[np.int64] | None) -> Floats: ...

    def deviation(self, x: Floats, arm: int) -> float: ...


class Linear:
    """Weights [arm + 1, width] and covariances [arm + 1, width, width]; the last one is the arm nobody has met.

    `noise` is a one-element array: a live learner may share all three and change them in place between calls.
    """

    __slots__ = ("covariance", "noise", "weights")

    def __init__(self, weights: Floats, covariance: Floats, noise: Floats) -> None:
        self.weights, self.covariance, self.noise = weights, covariance, noise

    @property
    def arms(self) -> int:
        return len(self.weights) - 1

    def predict(self, x: Floats, columns: NDArray[np.int64] | None, std: bool) -> tuple[Floats, Floats | None]:
        """[row, column] mean and standard deviation; `columns=None` is every known arm in order."""
        weights = self.weights[:-1] if columns is None else self.weights[columns]
        mean: Floats = x @ weights.T
        if not std:
            return mean, None
        covariance, width = self.covariance, x.shape[1]
        which = range(len(covariance) - 1) if columns is None else columns.tolist()
        if len(x) == 1 and columns is None:
            side = (covariance[:-1].reshape(-1, width) @ x[0]).reshape(-1, width)
            side *= x[0]
            variance = side.sum(axis=1)[None, :]
        else:
            variance = np.empty_like(mean)
            for place, arm in enumerate(which):
                side = x @ covariance[arm]
                side *= x
                variance[:, place] = side.sum(axis=1)
        np.maximum(variance, 1e-18, out=variance)
        variance *= self.noise
        return mean, np.sqrt(variance, out=variance)

    def means_of(self, x: Floats, columns: NDArray[np.int64] | None) -> Floats:
        """[column] for one row [width]."""
        weights = self.weights[:-1] if columns is None else self.weights[columns]
        found: Floats = weights.dot(x)
        return found

    def deviation(self, x: Floats, arm: int) -> float:
        """The standard deviation of one arm for one row [width]."""
        side = self.covariance[arm].dot(x)
        side *= x
        return math.sqrt(max(float(np.add.reduce(side)), 1e-18) * float(self.noise[0]))


class Clusters:
    """Centroids [cluster, width] and posterior means and deviations [cluster, arm + 1]; the last arm is nobody's."""

    __slots__ = ("_half", "centroids", "means", "stds")

    def __init__(self, centroids: Floats, means: Floats, stds: Floats) -> None:
        self.centroids, self.means, self.stds = centroids, means, stds
        self._half = 0.5 * (centroids * centroids).sum(axis=1)

    @property
    def arms(self) -> int:
        return int(self.means.shape[1]) - 1

    def nearest(self, x: Floats) -> NDArray[np.int64]:
        """[row]: argmin |x − c|², which is argmax x·c − |c|²/2."""
        found: NDArray[np.int64] = (x @ self.centroids.T - self._half).argmax(axis=1)
        return found

    def predict(self, x: Floats, columns: NDArray[np.int64] | None, std: bool) -> tuple[Floats, Floats | None]:
        cluster = self.nearest(x)
        chosen = np.arange(self.arms) if columns is None else columns
        place = (cluster[:, None], chosen[None, :])
        return self.means[place], self.stds[place] if std else None

    def means_of(self, x: Floats, columns: NDArray[np.int64] | None) -> Floats:
        found: Floats = self.predict(x[None, :], columns, False)[0][0]
        return found

    def deviation(self, x: Floats, arm: int) -> float:
        return float(self.stds[int(self.nearest(x[None, :])[0]), arm])


class Bandit:
    """The policy. Immutable as built by `decide.build`; a live learner's view of itself is the one exception."""

    __slots__ = (
        "_columns",
        "_index",
        "_last",
        "arms",
        "cost_weight",
        "costs",
        "encoder",
        "explorer",
        "family",
        "features",
        "knobs",
        "model",
        "seen",
        "tensors",
    )

    def __init__(
        self,
        *,
        arms: Sequence[str],
        features: Features,
        encoder: Encoder | None,
        model: Model,
        knobs: Mapping[str, Any],
        explorer: Explorer,
        seen: Floats,
        tensors: Mapping[str, Any] | None = None,
    ) -> None:
        self.family = "bandit"
        self.arms = tuple(arms)
        self.features, self.encoder, self.model = features, encoder, model
        self.knobs, self.explorer, self.seen = knobs, explorer, seen
        self.tensors = tensors or {}
        self.cost_weight = float(knobs.get("cost_weight", 0.0))
        self.costs: dict[str, float] = {name: float(cost) for name, cost in dict(knobs.get("costs") or {}).items()}
        self._index = {name: place for place, name in enumerate(self.arms)}
        self._columns: dict[tuple[str, ...], tuple[NDArray[np.int64] | None]] = {}
        self._last: tuple[Sequence[Candidate] | None, NDArray[np.int64] | None] = (None, None)

    def distribution(
        self, situation: Situation, candidates: Sequence[Candidate], *, memory: object = None, seed: int = 0
    ) -> Opinion:
        del memory
        x = self.vector(situation)
        kind = self.explorer.kind
        if kind in ("squarecb", "greedy"):  # needs no deviations but those of the two best, for the confidence
            columns = self.columns(candidates)
            mean = self.model.means_of(x, columns)
            if self.cost_weight:
                mean -= self.cost_weight * prices(candidates, self.costs)
            scores = mean.tolist()
            acting = explore.squarecb_row(scores, self._gamma()) if kind == "squarecb" else explore.greedy_row(scores)
            return Opinion(np.array(acting), self._sure(x, columns, scores), None, mean)
        found = self.judge(x[None, :], candidates, (seed,), confidence=False)
        assert found.mean is not None
        assert found.std is not None
        mean, std = found.mean[0], found.std[0]
        return Opinion(found.probabilities[0], confidence(mean.tolist(), std.tolist()), None, mean, std)

    def _gamma(self) -> float:
        """SquareCB's gamma grows with the square root of the rows seen."""
        return self.explorer.gamma * math.sqrt(max(float(self.seen[0]), 1.0))

    def _sure(self, x: Floats, columns: NDArray[np.int64] | None, mean: list[float]) -> float:
        """The confidence, from the deviations of the two best alone."""
        if len(mean) == 1:
            return 1.0
        one, other = _two_best(mean)
        pair = (one, other) if columns is None else (int(columns[one]), int(columns[other]))
        return _beats(mean[one] - mean[other], self.model.deviation(x, pair[0]), self.model.deviation(x, pair[1]))

    def vector(self, situation: Situation) -> Floats:
        """[width]: what the policy sees of a situation."""
        return self.features.vector(situation, self.encoder)

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        x = self.features.vectors(situations, self.encoder)
        return self.judge(x, candidates, seeds, confidence=confidence, std=std)

    def judge(
        self,
        x: Floats,
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = True,
    ) -> Opinions:
        """Opinions on feature vectors [row, width] that were computed before."""
        kind = self.explorer.kind
        mean, spread = self.model.predict(x, self.columns(candidates), std or confidence or kind == "thompson")
        if self.cost_weight:
            mean -= self.cost_weight * prices(candidates, self.costs)
        sure = confidences(mean, spread) if confidence and spread is not None else None
        match kind:
            case "thompson":
                assert spread is not None
                acting = explore.thompson(mean, spread * self.explorer.scale, seeds)
            case "squarecb":
                acting = explore.squarecb(mean, self._gamma())
            case "softmax":
                acting = explore.softmax(mean, self.explorer.temperature)
            case "epsilon":
                acting = explore.epsilon(explore.greedy(mean), self.explorer.share)
            case _:
                acting = explore.greedy(mean)
        return Opinions(acting, sure, mean, spread)

    def columns(self, candidates: Sequence[Candidate]) -> NDArray[np.int64] | None:
        """Where each candidate stands in the model; None: they are the known arms, all of them, in order."""
        if candidates is self._last[0]:  # a tuple cannot have changed since
            return self._last[1]
        names = tuple([each.name for each in candidates])
        known = self._columns.get(names)
        if known is None:
            if not names:
                raise InvalidInput("There is no candidate.", code="no_candidate", hint="Give at least one candidate.")
            places = [self._index.get(name, len(self.arms)) for name in names]
            found = None if places == list(range(len(self.arms))) else np.array(places, dtype=np.int64)
            if len(self._columns) >= _REMEMBERED:
                self._columns = {}
            self._columns[names] = known = (found,)
        if isinstance(candidates, tuple):
            self._last = (candidates, known[0])
        return known[0]

"""The outcome model: how probably each arm does well here, by logistic models that share what arms have in common.

    policy.distribution(situation, candidates, seed=7)     # Opinion: probabilities, mean, std, confidence
    policy.opinions(situations, candidates, seeds)         # the same for many, bit for bit

An arm's predicted reward is low + (high − low)·σ(x·w_a) for rewards between low and high; its deviation is that of
x·w_a under Laplace's approximation, times the slope of σ there. From the mean, `cost_weight` times the arm's cost is
taken off. Confidence is the probability that the best candidate beats the second, under both deviations.

Probabilities of success are what routing between a cheap and a good model needs: the gain of the better model is
greatest where the cheap one probably fails and the better one probably does not. An arm that was never learned is
judged by the weights that all arms share. Products x·w are exact sums, as in `decide.bandit`.

Not covered: features of candidates other than their cost; arms are told apart by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide import explore
from headway.decide.acting import Explorer, explorer
from headway.decide.arms import Arms, damaged
from headway.decide.arms import read as read_arms
from headway.decide.bandit import confidences, rounded
from headway.decide.prices import prices
from headway.encode.state import Features
from headway.nouns.errors import InvalidSettings
from headway.nouns.protocols import Encoder, Floats, Opinion, Opinions
from headway.nouns.records import Candidate, Situation

__all__ = ["Outcome", "read"]

_LEAST = 1e-12


class Outcome:
    """The policy of the family `outcome`. Immutable; safe from threads."""

    __slots__ = ("_covariance", "_high", "_low", "_weights", "arms", "cost_weight", "costs", "encoder", "explorer",
                 "features", "knobs", "tensors")  # fmt: skip

    family = "outcome"

    def __init__(
        self,
        *,
        arms: Arms,
        features: Features,
        encoder: Encoder | None,
        weights: Floats,
        covariance: Floats,
        low: float,
        high: float,
        knobs: Mapping[str, Any],
        explorer: Explorer,
        tensors: Mapping[str, Any],
    ) -> None:
        self.arms, self.features, self.encoder = arms, features, encoder
        self._weights, self._covariance = rounded(weights), rounded(covariance)
        for each in (self._weights, self._covariance):
            each.flags.writeable = False
        self._low, self._high = low, high
        self.knobs, self.explorer, self.tensors = knobs, explorer, tensors
        self.cost_weight = float(knobs.get("cost_weight", 0.0))
        self.costs: dict[str, float] = {name: float(cost) for name, cost in dict(knobs.get("costs") or {}).items()}

    def distribution(
        self, situation: Situation, candidates: Sequence[Candidate], *, memory: object = None, seed: int = 0
    ) -> Opinion:
        del memory
        found = self.judge(self.vector(situation)[None, :], candidates, (seed,))
        assert found.confidence is not None
        assert found.mean is not None
        assert found.std is not None
        return Opinion(found.probabilities[0], float(found.confidence[0]), None, found.mean[0], found.std[0])

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
        return self.judge(x, candidates, seeds, std=confidence or std)

    def vector(self, situation: Situation) -> Floats:
        """[width]: what the policy sees of a situation."""
        return self.features.vector(situation, self.encoder)

    def judge(self, x: Floats, candidates: Sequence[Candidate], seeds: Sequence[int], *, std: bool = True) -> Opinions:
        """Opinions on feature vectors [row, width] that were computed before."""
        columns = self.arms.columns(candidates)
        p = 0.5 + 0.5 * np.tanh(0.5 * (x @ self._weights[columns].T))
        mean = self._low + (self._high - self._low) * p
        if self.cost_weight:
            mean = mean - self.cost_weight * prices(candidates, self.costs)
        spread = self._deviations(x, columns.tolist(), p) if std or self.explorer.kind == "thompson" else None
        sure = None if spread is None else confidences(mean, spread)
        acting, _ = self.explorer.shape(Opinions(explore.greedy(mean), None, mean, spread), seeds)
        return Opinions(acting, sure, mean, spread)

    def _deviations(self, x: Floats, columns: list[int], p: Floats) -> Floats:
        variance = np.empty_like(p)
        for place, arm in enumerate(columns):
            side = x @ self._covariance[arm]
            side *= x
            variance[:, place] = side.sum(axis=1)
        found: Floats = np.sqrt(np.maximum(variance, _LEAST)) * (p * (1.0 - p)) * (self._high - self._low)
        return np.maximum(found, _LEAST)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> Outcome:
    """The policy that a learner described. The input is untrusted: what does not fit is refused as damaged."""
    arms, features = read_arms(extra, encoder)
    count, width = len(arms) + 1, features.width
    weights = _tensor(tensors, "weights", (count, width))
    covariance = _tensor(tensors, "covariance", (count, width, width))
    low, high = _tensor(tensors, "range", (2,)).tolist()
    if not low <= high or (np.diagonal(covariance, axis1=1, axis2=2) < 0.0).any():
        raise damaged("The bundle has a negative variance, or a range that ends before it begins", "bad_tensor")
    costs = knobs.get("costs") or {}
    numbers = [knobs.get("cost_weight", 0.0), *(costs.values() if isinstance(costs, Mapping) else [None])]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in numbers):
        raise damaged(f"The bundle's costs are {costs!r:.80}", "bad_header")
    try:
        shaped = explorer(knobs.get("explore", "greedy"))
    except (InvalidSettings, TypeError) as error:
        raise damaged(f"The bundle's explorer cannot be used ({error})", "bad_header") from error
    return Outcome(
        arms=arms, features=features, encoder=encoder, weights=weights, covariance=covariance, low=low, high=high,
        knobs=knobs, explorer=shaped, tensors=tensors,
    )  # fmt: skip


def _tensor(tensors: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    found = tensors.get(name)
    if found is None:
        raise damaged(f"The bundle has no tensor {name!r}", "missing_tensor")
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or found.shape != shape:
        raise damaged(f"The tensor {name!r} is not float64 of the shape {shape}", "bad_tensor")
    if not np.isfinite(found).all() or float(np.abs(found).max(initial=0.0)) > 1e12:
        raise damaged(f"The tensor {name!r} holds a number that cannot be computed with", "bad_tensor")
    return np.array(found)

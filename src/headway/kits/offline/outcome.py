"""The outcome model: the probability of success of each arm, from logistic models with a shared part.

    policy.opinions(situations, candidates, seeds)         # probabilities, confidence, mean, std

An arm's predicted reward is low + (high − low)·σ(x·w_a) for rewards between low and high; its deviation is that of
x·w_a under Laplace's approximation, times the slope of σ there. `cost_weight` times the arm's cost is subtracted
from the mean. Confidence is the probability that the best candidate beats the second, under both deviations.

Routing between a cheap and a good model needs probabilities of success: the gain of the better model is greatest where
the cheap one probably fails and the better one probably does not. An unknown arm uses the shared weights. Products x·w
are exact sums, as in `decide.rounded`.

Not covered: features of candidates other than their cost; arms are identified by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide import Arms, Chooser, damaged, rounded, tensor
from headway.encode import Features
from headway.nouns import Candidate, Encoder, Floats, Opinions, Situation

_LEAST, _LARGEST = 1e-12, 1e12


class OutcomePolicy:
    """The policy of the family `outcome`. Immutable; safe from threads."""

    __slots__ = (
        "_covariance",
        "_high",
        "_low",
        "_weights",
        "arms",
        "chooser",
        "encoder",
        "features",
        "knobs",
        "tensors",
    )  # fmt: skip

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
        chooser: Chooser,
        tensors: Mapping[str, Any],
    ) -> None:
        self.arms, self.features, self.encoder = arms, features, encoder
        self._weights, self._covariance = rounded(weights), rounded(covariance)
        self._low, self._high = low, high
        self.knobs, self.chooser, self.tensors = knobs, chooser, tensors

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
        columns = self.arms.columns(candidates)
        p = 0.5 + 0.5 * np.tanh(0.5 * (x @ self._weights[columns].T))
        asked = confidence or std or self.chooser.explorer.kind == "thompson"
        spread = self._deviations(x, columns.tolist(), p) if asked else None
        return self.chooser.opinions(self._low + (self._high - self._low) * p, spread, candidates, seeds)

    def _deviations(self, x: Floats, columns: list[int], p: Floats) -> Floats:
        variance = np.empty_like(p)
        for place, arm in enumerate(columns):
            side = x @ self._covariance[arm]
            side *= x
            variance[:, place] = side.sum(axis=1)
        spread: Floats = np.sqrt(np.maximum(variance, _LEAST)) * (p * (1.0 - p)) * (self._high - self._low)
        return np.maximum(spread, _LEAST)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> OutcomePolicy:
    """The policy from a learner's tensors and JSON. The input is untrusted: a mismatch is refused as damaged."""
    arms, features = Arms.read(extra), Features.read(extra, encoder)
    count, width = len(arms) + 1, features.width
    weights = tensor(tensors, "weights", count, width, limit=_LARGEST)
    covariance = tensor(tensors, "covariance", count, width, width, limit=_LARGEST)
    low, high = tensor(tensors, "range", 2, limit=_LARGEST).tolist()
    if not low <= high or (np.diagonal(covariance, axis1=1, axis2=2) < 0.0).any():
        raise damaged("The bundle has a negative variance, or an empty range", "bad_tensor")
    return OutcomePolicy(
        arms=arms, features=features, encoder=encoder, weights=weights, covariance=covariance, low=low, high=high,
        knobs=knobs, chooser=Chooser.read(knobs), tensors=tensors,
    )  # fmt: skip

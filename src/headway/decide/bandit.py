"""The contextual bandit: a posterior over each arm's reward, linear in the features or by clusters of them.

    bandit.opinions(situations, candidates, seeds)              # probabilities, mean, confidence, std
    read(knobs, tensors, extra, encoder)                        # the bandit that a bundle stores

An unknown arm starts at the pooled mean with the prior's variance; a withdrawn arm is simply not
among the candidates. `mean` is the predicted reward less `cost_weight` × the arm's cost (the knob `costs`,
else the candidate's feature `cost`, else the mean cost of the others). Confidence is P(best beats second) under both
posteriors, taken as independent normals.

Scores are exact sums (`rounded`): features are multiples of 2**-14, weights and covariances are rounded, so they
do not depend on the order of addition, the machine or the batch.

Not covered: features of candidates other than their cost; arms are identified by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import explore
from headway.decide.acting import Explorer
from headway.decide.arms import Arms
from headway.decide.chooser import Prices, beats, confidences, two_best
from headway.decide.posteriors import Clusters, Linear, Posterior, rounded
from headway.decide.stored import damaged, frozen, tensor
from headway.encode import Features
from headway.nouns import Candidate, Encoder, Floats, Opinions, Situation

_LARGEST = 1e100  # of a number in a bundle: products of three of them are still numbers


class Bandit:
    """The policy. Immutable after `read`; only a live learner changes its own view."""

    __slots__ = ("_offered", "_prices", "arms", "encoder", "explorer", "family", "features", "knobs", "model", "seen",
                 "tensors")  # fmt: skip

    def __init__(
        self,
        *,
        arms: Arms,
        features: Features,
        encoder: Encoder | None,
        model: Posterior,
        knobs: Mapping[str, Any],
        explorer: Explorer,
        seen: Floats,
        tensors: Mapping[str, Any] | None = None,
    ) -> None:
        self.family = "bandit"
        self.arms, self.features, self.encoder, self.model = arms, features, encoder, model
        self.knobs, self.explorer, self.seen = knobs, explorer, seen
        self.tensors = tensors or {}
        self._prices = Prices(knobs)
        self._offered: tuple[Sequence[Candidate] | None, NDArray[np.int64] | None] = None, None  # the last ones

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        x = self.vectors(situations)
        kind = self.explorer.kind
        known, columns = self._offered
        if candidates is not known:
            columns = self.arms.columns(candidates)
            if columns is self.arms.every:
                columns = None
            if isinstance(candidates, tuple):  # which cannot change
                self._offered = candidates, columns
        mean = self.model.mean(x, columns)
        if self._prices.weight:
            mean = self._prices.off(mean, candidates)
        sure = spread = None
        if confidence and len(x) == 1 and kind in ("squarecb", "greedy") and not std:
            sure = self._sure(x, columns, mean)
        elif confidence or std or kind == "thompson":
            spread = self.model.std(x, range(len(self.arms)) if columns is None else columns.tolist())
            sure = confidences(mean, spread) if confidence else None
        match kind:
            case "thompson":
                assert spread is not None
                acting = explore.thompson(mean, spread * self.explorer.scale, seeds)
            case "squarecb":  # gamma grows with the square root of the rows seen
                acting = explore.squarecb(mean, self.explorer.gamma * math.sqrt(max(float(self.seen[0]), 1.0)))
            case "softmax":
                acting = explore.softmax(mean, self.explorer.temperature)
            case "epsilon":
                acting = explore.epsilon(explore.greedy(mean), self.explorer.share)
            case _:
                acting = explore.greedy(mean)
        return Opinions(acting, sure, mean, spread)

    def vectors(self, situations: Sequence[Situation]) -> Floats:
        """[row, width]: the features of situations."""
        return self.features.vectors(situations, self.encoder)

    def _sure(self, x: Floats, columns: NDArray[np.int64] | None, mean: Floats) -> Floats:
        """The confidence of a single row, from the deviations of the two best alone."""
        scores = mean[0].tolist()
        if len(scores) == 1:
            return np.ones(1)
        best, second = two_best(scores)
        pair = (best, second) if columns is None else (int(columns[best]), int(columns[second]))
        one, other = self.model.std_pair(x, pair)
        return np.array([beats(scores[best] - scores[second], one, other)])


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None = None
) -> Bandit:
    """The bandit of a bundle. The input is untrusted: anything that does not fit is refused as damaged."""
    arms, features = Arms.read(extra, least=0), Features.read(extra, encoder)
    width, count = features.width, len(arms)
    model: Posterior
    match knobs.get("model"):
        case "linear":
            totals = tensor(tensors, "totals", count, 3, limit=_LARGEST)
            tensor(tensors, "moments", count, width, width, limit=_LARGEST)
            tensor(tensors, "targets", count, width, limit=_LARGEST)
            covariance = tensor(tensors, "covariance", count + 1, width, width, limit=_LARGEST)
            noise = tensor(tensors, "noise", 1, limit=_LARGEST)
            if (np.diagonal(covariance, axis1=1, axis2=2) < 0.0).any() or noise[0] < 0.0:
                raise damaged("The bundle has a negative variance", "bad_tensor")
            # Rounding twice changes nothing; an unrounded tensor is rounded here.
            weights = rounded(tensor(tensors, "weights", count + 1, width, limit=_LARGEST))
            model = Linear(frozen(weights), frozen(rounded(covariance)), frozen(noise))
        case "clusters":
            centroids = tensor(tensors, "centroids", -1, width, limit=_LARGEST)
            clusters = len(centroids)
            totals = tensor(tensors, "totals", clusters, count, 3, limit=_LARGEST)
            stds = tensor(tensors, "stds", clusters, count + 1, limit=_LARGEST)
            if not clusters or (stds < 0.0).any():
                raise damaged("The bundle has no cluster, or a negative deviation", "bad_tensor")
            means = tensor(tensors, "means", clusters, count + 1, limit=_LARGEST)
            model = Clusters(frozen(rounded(centroids)), frozen(means), frozen(stds))
        case other:
            raise damaged(f"The bundle's bandit model is {other!r}, not linear or clusters", "bad_header")
    Prices.check(knobs, "ridge", "shrink")
    return Bandit(
        arms=arms,
        features=features,
        encoder=encoder,
        model=model,
        knobs=knobs,
        explorer=Explorer.read(knobs),
        seen=frozen(np.array([totals[..., 0].sum()])),
        tensors=tensors,
    )

"""The Q-network: the value of each arm and its uncertainty, from one or several small networks.

    policy.opinions(situations, candidates, seeds)         # probabilities, confidence, mean, std
    policy.values(x)                                       # [row, arm]: Q itself

A candidate's `mean` is Q(x, a), averaged over the members, minus `pessimism` times their deviation, minus `cost_weight`
times its cost. `std` comes from the first member: its last hidden layer φ is taken as given and the last layer as a
Bayesian regression, so that the variance is σ²·φᵀP_aφ ("neural-linear", Riquelme et al., 2018); with several members
their variance is added. **Confidence** is the probability that the best candidate beats the second, Φ(β·gap/std): β (at
most 1) is the share of the predicted gaps that held-out rows confirm, so an overconfident network is trusted less.

An unknown arm has the mean value and the largest uncertainty; a withdrawn arm is no longer among the candidates. Sums
are exact, as in `decide.trunks`.

Not covered: features of candidates other than their cost; arms are identified by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide import Arms, Chooser, damaged, rounded, tensor
from headway.encode import Features
from headway.kits.practice import Trunk
from headway.nouns import Candidate, Encoder, Floats, Opinions, Situation

MOST_MEMBERS = 16
_HIDDEN_BITS = 24  # of a rectified activation on its grid
_LEAST, _LARGEST = 1e-9, 1e15


class QNetwork:
    """The policy of the family `cql`. Immutable; safe from threads."""

    __slots__ = (
        "_covariance",
        "_noise",
        "_slope",
        "_usual",
        "arms",
        "chooser",
        "encoder",
        "features",
        "knobs",
        "members",
        "pessimism",
        "tensors",
    )  # fmt: skip

    family = "cql"

    def __init__(
        self,
        *,
        arms: Arms,
        features: Features,
        encoder: Encoder | None,
        members: Sequence[Trunk],
        covariance: Floats,
        scale: Floats,
        knobs: Mapping[str, Any],
        chooser: Chooser,
        tensors: Mapping[str, Any],
    ) -> None:
        self.arms, self.features, self.encoder = arms, features, encoder
        self.members, self.knobs, self.tensors, self.chooser = tuple(members), knobs, tensors, chooser
        self._covariance = rounded(covariance, _HIDDEN_BITS)  # multiplied with φ, which is on a grid
        self._noise, self._slope, self._usual = (float(value) for value in scale)
        self.pessimism = float(knobs.get("pessimism", 0.0))

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del confidence, std
        x = self.features.vectors(situations, self.encoder)
        columns = self.arms.columns(candidates)
        q, disagreement = self._members(x)
        rows = len(x)
        # [row, arm + 1]: the last column is an unknown arm.
        mean = np.concatenate([q, np.full((rows, 1), self._usual)], axis=1)[:, columns]
        spread = np.concatenate([disagreement, np.zeros((rows, 1))], axis=1)[:, columns]
        phi = np.concatenate([np.ones((rows, 1)), self.members[0].hidden(x)], axis=1)
        variance = np.empty_like(mean)
        for place, arm in enumerate(columns.tolist()):
            side = phi @ self._covariance[arm]
            side *= phi
            variance[:, place] = side.sum(axis=1)
        np.maximum(variance, _LEAST, out=variance)
        deviation = np.sqrt(variance * self._noise + spread)
        return self.chooser.opinions(mean, deviation, candidates, seeds, slope=self._slope)

    def values(self, x: Floats) -> Floats:
        """[row, arm]: Q of every known arm, minus the members' disagreement."""
        return self._members(x)[0]

    def _members(self, x: Floats) -> tuple[Floats, Floats]:
        """Pessimistic Q and the members' variance, [row, arm] each."""
        if len(self.members) == 1:
            q = self.members[0](x)
            return q, np.zeros_like(q)
        values = np.stack([member(x) for member in self.members])  # [member, row, arm]
        mean = _summed(values) / len(values)
        off = values - mean
        off *= off
        variance = _summed(off) / (len(values) - 1)
        if self.pessimism:
            mean = mean - self.pessimism * np.sqrt(variance)
        return mean, variance


def _summed(parts: Floats) -> Floats:
    """Over the first axis, from first to last: the same bits for one row as for many."""
    total: Floats = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> QNetwork:
    """The policy from a learner's tensors and JSON. The input is untrusted: a mismatch is refused as damaged."""
    arms, features = Arms.read(extra), Features.read(extra, encoder)
    count = knobs.get("members", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_MEMBERS:
        raise damaged(f"The bundle has {count!r:.40} members", "bad_header")
    members = [
        Trunk.read(tensors, f"q{number}", inputs=features.width, outputs=len(arms), activation="relu")
        for number in range(count)
    ]
    hidden = members[0].weights[-1].shape[1] + 1
    covariance = tensor(tensors, "covariance", len(arms) + 1, hidden, hidden, limit=_LARGEST)
    scale = tensor(tensors, "scale", 3, limit=_LARGEST)
    if (np.diagonal(covariance, axis1=1, axis2=2) < 0.0).any() or scale[0] < 0.0 or not 0.0 <= scale[1] <= 1.0:
        raise damaged("The bundle has a negative variance or an impossible slope", "bad_tensor")
    return QNetwork(
        arms=arms, features=features, encoder=encoder, members=members, covariance=covariance, scale=scale,
        knobs=knobs, chooser=Chooser.read(knobs, "pessimism"), tensors=tensors,
    )  # fmt: skip

"""The Q-network: what each arm is worth here, by a small network or several, and how surely.

    policy.distribution(situation, candidates, seed=7)     # Opinion: probabilities, mean, std, confidence
    policy.opinions(situations, candidates, seeds)         # the same for many, bit for bit
    policy.values(x)                                       # [row, arm]: Q itself

A candidate's `mean` is Q(x, a), averaged over the members, less `pessimism` times their deviation, less `cost_weight`
times its cost. `std` comes from the first member: its last hidden layer φ is taken as given and the last layer as a
Bayesian regression, so that the variance is σ²·φᵀP_aφ ("neural-linear", Riquelme et al., 2018); with several members
their variance is added. **Confidence** is the probability that the best candidate beats the second, Φ(β·gap/std): β (at
most 1) is how much of the predicted gaps was found again on rows that training did not see, so a network that promises
too much is trusted less.

An arm that was never learned is worth what is usual and is most uncertain; one that is withdrawn is simply not among
the candidates any more. Sums are exact, as in `decide.trunks`.

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
from headway.decide.bandit import confidences
from headway.decide.prices import prices
from headway.decide.trunks import Trunk
from headway.encode.state import Features
from headway.nouns.errors import InvalidSettings
from headway.nouns.protocols import Encoder, Floats, Opinion, Opinions
from headway.nouns.records import Candidate, Situation

__all__ = ["MOST_MEMBERS", "QNetwork", "read"]

MOST_MEMBERS = 16
_HIDDEN_BITS = 24  # of a rectified activation on its grid
_LEAST = 1e-9


class QNetwork:
    """The policy of the family `cql`. Immutable; safe from threads."""

    __slots__ = ("_covariance", "_noise", "_slope", "_usual", "arms", "cost_weight", "costs", "encoder", "explorer",
                 "features", "knobs", "members", "pessimism", "tensors")  # fmt: skip

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
        explorer: Explorer,
        tensors: Mapping[str, Any],
    ) -> None:
        self.arms, self.features, self.encoder = arms, features, encoder
        self.members, self.knobs, self.tensors, self.explorer = tuple(members), knobs, tensors, explorer
        self._covariance = _exact(covariance)
        self._noise, self._slope, self._usual = (float(each) for each in scale)
        self.pessimism = float(knobs.get("pessimism", 0.0))
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
        del confidence, std
        return self.judge(self.features.vectors(situations, self.encoder), candidates, seeds)

    def vector(self, situation: Situation) -> Floats:
        """[width]: what the policy sees of a situation."""
        return self.features.vector(situation, self.encoder)

    def values(self, x: Floats) -> Floats:
        """[row, arm]: Q of every known arm, less the members' disagreement."""
        return self._members(x)[0]

    def judge(self, x: Floats, candidates: Sequence[Candidate], seeds: Sequence[int]) -> Opinions:
        """Opinions on feature vectors [row, width] that were computed before."""
        columns = self.arms.columns(candidates)
        q, disagreement = self._members(x)
        rows = len(x)
        # [row, arm + 1]: the last column is an arm that nobody has met.
        mean = np.concatenate([q, np.full((rows, 1), self._usual)], axis=1)[:, columns]
        spread = np.concatenate([disagreement, np.zeros((rows, 1))], axis=1)[:, columns]
        phi = np.concatenate([np.ones((rows, 1)), self.members[0].hidden(x)], axis=1)
        variance = np.empty_like(mean)
        for place, arm in enumerate(columns.tolist()):
            side = phi @ self._covariance[arm]
            side *= phi
            variance[:, place] = side.sum(axis=1)
        np.maximum(variance, _LEAST, out=variance)
        std = np.sqrt(variance * self._noise + spread)
        if self.cost_weight:
            mean = mean - self.cost_weight * prices(candidates, self.costs)
        sure = confidences(mean * self._slope, std)
        acting, _ = self.explorer.shape(Opinions(explore.greedy(mean), None, mean, std), seeds)
        return Opinions(acting, sure, mean, std)

    def _members(self, x: Floats) -> tuple[Floats, Floats]:
        """Pessimistic Q and the members' variance, [row, arm] each."""
        if len(self.members) == 1:
            q = self.members[0](x)
            return q, np.zeros_like(q)
        each = np.stack([member(x) for member in self.members])  # [member, row, arm]
        mean = _summed(each) / len(each)
        off = each - mean
        off *= off
        variance = _summed(off) / (len(each) - 1)
        if self.pessimism:
            mean = mean - self.pessimism * np.sqrt(variance)
        return mean, variance


def _summed(parts: Floats) -> Floats:
    """Over the first axis, from first to last: the same bits for one row as for many."""
    total: Floats = parts[0].copy()
    for each in parts[1:]:
        total += each
    return total


def _exact(covariance: Floats) -> Floats:
    """Rounded so that products with φ, which lies on a grid, add up exactly in any order."""
    left = 53 - _HIDDEN_BITS - math.ceil(math.log2(max(covariance.shape[-1], 2)))
    _, exponent = math.frexp(max(float(np.abs(covariance).max(initial=0.0)), 1e-300))
    constant = 1.5 * math.ldexp(1.0, 52 + exponent - left)
    near: Floats = (covariance + constant) - constant
    near.flags.writeable = False
    return near


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> QNetwork:
    """The policy that a learner described. The input is untrusted: what does not fit is refused as damaged."""
    arms, features = read_arms(extra, encoder)
    count = knobs.get("members", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_MEMBERS:
        raise damaged(f"The bundle has {count!r:.40} members", "bad_header")
    members = [
        Trunk.read(tensors, f"q{number}", inputs=features.width, outputs=len(arms), activation="relu")
        for number in range(count)
    ]
    hidden = members[0].weights[-1].shape[1] + 1
    covariance = _tensor(tensors, "covariance", (len(arms) + 1, hidden, hidden))
    scale = _tensor(tensors, "scale", (3,))
    if (np.diagonal(covariance, axis1=1, axis2=2) < 0.0).any() or scale[0] < 0.0 or not 0.0 <= scale[1] <= 1.0:
        raise damaged("The bundle has a negative variance or an impossible slope", "bad_tensor")
    costs = knobs.get("costs") or {}
    numbers = [knobs.get("cost_weight", 0.0), knobs.get("pessimism", 0.0)]
    numbers += costs.values() if isinstance(costs, Mapping) else [None]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in numbers):
        raise damaged(f"The bundle's costs are {costs!r:.80}", "bad_header")
    try:
        shaped = explorer(knobs.get("explore", "greedy"))
    except (InvalidSettings, TypeError) as error:
        raise damaged(f"The bundle's explorer cannot be used ({error})", "bad_header") from error
    return QNetwork(
        arms=arms, features=features, encoder=encoder, members=members, covariance=covariance, scale=scale,
        knobs=knobs, explorer=shaped, tensors=tensors,
    )  # fmt: skip


def _tensor(tensors: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    found = tensors.get(name)
    if found is None:
        raise damaged(f"The bundle has no tensor {name!r}", "missing_tensor")
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or found.shape != shape:
        raise damaged(f"The tensor {name!r} is not float64 of the shape {shape}", "bad_tensor")
    if not np.isfinite(found).all() or float(np.abs(found).max(initial=0.0)) > 1e15:
        raise damaged(f"The tensor {name!r} holds a number that cannot be computed with", "bad_tensor")
    return np.array(found)

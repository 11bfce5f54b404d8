"""The clone: chooses what the logged policy would most probably have chosen.

    policy.opinions(situations, candidates, seeds)         # probabilities, confidence

A network gives a logit per arm; probabilities are their softmax over the candidates, at a temperature that was fitted
on held-out rows (Guo et al., 2017), so that **confidence**, the probability of the first choice, is how often the
logged policy chooses it. An unknown arm gets the mean probability of the known ones.

It predicts no rewards, so costs, explorers that need predictions and `rank` by reward do not apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.decide import Arms, damaged, explore, tensor
from headway.encode import Features
from headway.kits.practice import Trunk
from headway.nouns import Candidate, Encoder, Floats, Opinions, Situation

EXPLORE = ("policy", "greedy")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clone:
    """The policy of the family `clone`. Immutable; safe from threads."""

    family = "clone"
    arms: Arms
    features: Features
    encoder: Encoder | None
    actor: Trunk
    temperature: float
    knobs: Mapping[str, Any]
    tensors: Mapping[str, Any]

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, confidence, std
        scores = self._scores(situations, candidates)
        own = explore.softmax(scores, 1.0)
        acting = explore.greedy(scores) if self.knobs.get("explore") == "greedy" else own
        return Opinions(acting, own.max(axis=1))

    def chances(self, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> Floats:
        """[row, candidate]: how probable it is that the logged policy chooses each."""
        return explore.softmax(self._scores(situations, candidates), 1.0)

    def _scores(self, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> Floats:
        x = self.features.vectors(situations, self.encoder)
        return self.arms.offered(self.actor(x) / self.temperature, candidates)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> Clone:
    """The policy from a learner's tensors and JSON. The input is untrusted: a mismatch is refused as damaged."""
    arms, features = Arms.read(extra), Features.read(extra, encoder)
    temperature = float(tensor(tensors, "temperature", 1)[0])
    if not 1e-3 <= temperature <= 1e3:
        raise damaged("The bundle's temperature is not between 0.001 and 1,000", "bad_tensor")
    if knobs.get("explore", "greedy") not in EXPLORE:
        raise damaged(f"The bundle has the explorer {knobs.get('explore')!r:.40}", "bad_header")
    actor = Trunk.read(tensors, "policy", inputs=features.width, outputs=len(arms), activation="relu")
    return Clone(
        arms=arms, features=features, encoder=encoder, actor=actor, temperature=temperature, knobs=knobs,
        tensors=tensors,
    )  # fmt: skip

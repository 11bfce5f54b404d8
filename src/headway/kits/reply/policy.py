"""A policy of the family `language` as the core sees it: which base and which adapter. The worker holds the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.kits.reply.checks import QualityChecks, quality_checks
from headway.nouns import Candidate, Encoder, Opinions, Situation


@dataclass(frozen=True, slots=True)
class LanguagePolicy:
    """It writes replies. Among candidates it has no preference: which policy answers is the ledger's choice."""

    base: str  # the hash of the weights that its adapter was trained on
    template: str
    measured: Mapping[str, float] = field(default_factory=dict)  # after training; what the gate checks
    family: str = "language"

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, std
        probabilities = np.full((len(situations), len(candidates)), 1.0 / len(candidates))
        return Opinions(probabilities, np.ones(len(situations)) if confidence else None)

    def quality(self, *, preferred: bool) -> QualityChecks:
        """The gate's checks beside the votes; `preferred`: the votes prefer it."""
        return quality_checks(self.measured, preferred=preferred)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> LanguagePolicy:
    """The policy of a bundle."""
    del knobs, tensors, encoder
    return LanguagePolicy(
        base=str(extra.get("base", "")),
        template=str(extra.get("template", "")),
        measured=dict(extra.get("measured", {})),
    )

"""The learner of the family language."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.kits.reply.knobs import knobs_from
from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Encoder, Experience, Learned, Progress

__all__ = ["LanguageLearner"]


class LanguageLearner:
    """Learns an adapter from rated replies."""

    family = "language"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self,
        experience: Experience,  # noqa: ARG002 — the interface of every learner
        knobs: Mapping[str, Any],
        seed: int,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
        *,
        work: Path | None = None,  # noqa: ARG002
    ) -> Learned:
        knobs_from(knobs)
        raise InvalidInput("The family 'language' cannot learn yet.", code="nothing_to_learn", hint="Rate replies first.")

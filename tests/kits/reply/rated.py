"""Rated replies for tests of the trainer, on a tiny random model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.kits.models.language import Prompt, Turn
from headway.kits.reply.knobs import LanguageKnobs, knobs_from
from headway.kits.reply.learn.data import RatedReply, Sample, divided, graded

QUICK = {"device": "cpu", "rank": 4, "alpha": 8.0, "epochs": 2, "rate": 1e-3, "anchors": 1, "checkpoint": 2}


def tuned_model(folder: Path, *, seed: int = 0) -> Any:
    from headway.kits.reply.learn.tuned import TunedModel

    return TunedModel.load(folder, rank=4, alpha=8.0, seed=seed, device="cpu")


def quick(**given: Any) -> LanguageKnobs:
    return knobs_from({**QUICK, **given})


def replies(tuned: Any, count: int = 16) -> list[RatedReply]:
    """Replies of the base; those with an even first token were liked."""
    prompts = [Prompt(turns=(Turn("user", f"about {place}?"),), max_tokens=6, seed=place) for place in range(count)]
    rated = []
    for place, (prompt, reply) in enumerate(zip(prompts, tuned.generate_base(prompts), strict=True)):
        rated.append(
            RatedReply(
                id=f"dec_{place:03}", text=prompt.turns[0].content, prompt=reply.prompt_tokens, reply=reply.tokens,
                logged=reply.logprob_model, reward=1.0 if reply.tokens[0] % 2 == 0 else -1.0, at=float(place),
            )
        )  # fmt: skip
    return rated


def train_samples(rated: list[RatedReply]) -> list[Sample]:
    return divided(graded(rated)).train

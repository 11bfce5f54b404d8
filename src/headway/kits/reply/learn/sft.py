"""The learner `sft`: the likelihood of liked and edited replies, and nothing else. Arm A of every blind comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.kits.reply.learn.data import Sample
from headway.kits.reply.learn.losses import likelihood
from headway.kits.reply.learn.objective import LossOfRows, TrainingObjective

if TYPE_CHECKING:
    from headway.kits.reply.learn.objective import TrainingState


class Sft(TrainingObjective):
    """Maximum likelihood."""

    name = "sft"

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        return [sample for sample in samples if sample.liked]

    def loss(self, trainer: TrainingState, places: Sequence[int], epoch: int) -> LossOfRows:  # noqa: ARG002
        scored = trainer.score(places)
        weights = trainer.column([trainer.samples[place].weight for place in places])
        loss = likelihood(scored.logprobs, scored.mask, weights)
        reward = sum(trainer.samples[place].reward for place in places) / len(places)
        return LossOfRows(loss, {"policy_loss": float(loss.detach()), "reward": reward})

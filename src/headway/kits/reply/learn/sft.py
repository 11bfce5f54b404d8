"""The learner `sft`: the likelihood of liked and edited replies, and nothing else. Arm A of every blind comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from headway.kits.reply.learn.data import Sample
from headway.kits.reply.learn.losses import likelihood
from headway.kits.reply.learn.objective import LossOfRows

if TYPE_CHECKING:
    from headway.kits.reply.learn.objective import TrainingState


class Sft:
    """Maximum likelihood."""

    name = "sft"

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        return [sample for sample in samples if sample.liked]

    def prepare(self, trainer: TrainingState) -> None:
        pass

    def begin_epoch(self, trainer: TrainingState, epoch: int) -> None:
        pass

    def loss(self, trainer: TrainingState, places: Sequence[int], epoch: int) -> LossOfRows:  # noqa: ARG002
        scored = trainer.score(places)
        weights = trainer.column([trainer.samples[place].weight for place in places])
        loss = likelihood(scored.logprobs, scored.mask, weights)
        reward = sum(trainer.samples[place].reward for place in places) / len(places)
        return LossOfRows(loss, {"policy_loss": float(loss.detach()), "reward": reward})

    def extra_parameters(self) -> list[dict[str, Any]]:
        return []

    def modules(self) -> Mapping[str, nn.Module]:
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {}

    def load(self, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:
        pass

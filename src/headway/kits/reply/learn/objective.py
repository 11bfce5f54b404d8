"""What a learner is to the trainer: a loss over replies, with what it keeps between updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor, nn

from headway.kits.reply.learn.data import Sample

if TYPE_CHECKING:
    from headway.kits.reply.learn.trainer import Trainer


class LossOfRows(NamedTuple):
    """A loss, and numbers for metrics.jsonl."""

    loss: Tensor
    metrics: Mapping[str, float]


class TrainingObjective(Protocol):
    """One of the learners `sft`, `kto` and `ppo`."""

    @property
    def name(self) -> str: ...

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        """Those that it learns from."""
        ...

    def prepare(self, trainer: Trainer) -> None:
        """Called once, with the adapter as it starts."""
        ...

    def begin_epoch(self, trainer: Trainer, epoch: int) -> None: ...

    def loss(self, trainer: Trainer, places: Sequence[int], epoch: int) -> LossOfRows:
        """The loss of these samples (places in `trainer.samples`), its mean over them."""
        ...

    def extra_parameters(self) -> list[dict[str, Any]]:
        """Groups of parameters beside the adapter, with their learning rates."""
        ...

    def modules(self) -> Mapping[str, nn.Module]: ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What an interrupted run needs: tensors, and JSON."""
        ...

    def load(self, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None: ...

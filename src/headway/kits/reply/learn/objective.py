"""What a learner is to the trainer: a loss over replies and its state; and what the trainer gives it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from headway.kits.reply.knobs import LanguageKnobs
from headway.kits.reply.learn.data import Sample, ordered
from headway.kits.reply.learn.losses import likelihood
from headway.kits.reply.learn.scorer import ScoredRows, TokenRow
from headway.kits.reply.learn.tuned import TunedModel

_SCORED_ROWS = 8
_SMOOTH = 0.5
_FASTER, _SLOWER = 1.15, 0.5
_MOST, _LEAST = 2.0, 1.0 / 64.0  # of the first learning rate
_WARM = 0.1  # of the path at its begin


@dataclass(slots=True)
class TrainerCounts:
    """Where a run is."""

    updates: int = 0
    rows: int = 0
    tokens: int = 0
    epoch: int = 0
    place: int = 0  # update within the epoch
    stopped: str = ""
    pulled: float = 1.0  # what the adapter was scaled by at the end, to be within the budget
    finished: bool = False
    curve: list[tuple[int, float, float]] = field(default_factory=list)  # update, loss, KL


class LossOfRows(NamedTuple):
    """A loss, and numbers for metrics.jsonl."""

    loss: Tensor
    metrics: Mapping[str, float]


class TrainingObjective(Protocol):
    """One of the learners `sft`, `kto` and `ppo`. What it does not need, it inherits."""

    @property
    def name(self) -> str: ...

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        """Those that it learns from."""
        ...

    def prepare(self, trainer: TrainingState) -> None:  # noqa: ARG002
        """Called once, with the adapter as it starts."""
        return

    def begin_epoch(self, trainer: TrainingState, epoch: int) -> None:  # noqa: ARG002
        return

    def loss(self, trainer: TrainingState, places: Sequence[int], epoch: int) -> LossOfRows:
        """The loss of these samples (places in `trainer.samples`), its mean over them."""
        ...

    def extra_parameters(self) -> list[dict[str, Any]]:
        """Groups of parameters beside the adapter, with their learning rates."""
        return []

    def modules(self) -> Mapping[str, nn.Module]:
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What an interrupted run needs: tensors, and JSON."""
        return {}, {}

    def load(self, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:  # noqa: ARG002
        return


class TrainingState:
    """A tuned model, its samples and where the run is: what learners, penalties and snapshots see of a trainer."""

    def __init__(
        self,
        tuned: TunedModel,
        samples: Sequence[Sample],
        objective: TrainingObjective,
        knobs: LanguageKnobs,
        *,
        seed: int,
    ) -> None:
        self.tuned, self.knobs, self.seed, self.objective = tuned, knobs, seed, objective
        self.samples = objective.samples(samples)
        self.rows = [TokenRow(sample.prompt, sample.reply) for sample in self.samples]
        self.mean_length = float(np.mean([len(row.reply) for row in self.rows])) if self.rows else 1.0
        self.controller = KlController(knobs.budget)
        self.counts = TrainerCounts()
        self.base: list[Tensor] = []  # log π_0 of every sample, token by token
        self.last: dict[str, float] = {}
        self._size = knobs.batch * knobs.accumulate
        self.optimizer: torch.optim.Optimizer  # of a run that has begun

    def plan(self, epoch: int) -> list[list[int]]:
        """The samples of each update of an epoch."""
        places = list(range(len(self.samples)))
        random.Random(f"{self.seed}/{epoch}").shuffle(places)
        if epoch == 0 and self.knobs.curriculum:
            places = ordered(self.samples, places)
        return [places[start : start + self._size] for start in range(0, len(places), self._size)]

    def passes(self, places: Sequence[int]) -> list[list[int]]:
        """The samples of each forward pass of an update; those of about one length together."""
        by_length = sorted(places, key=lambda place: len(self.rows[place]))
        return [by_length[start : start + self.knobs.batch] for start in range(0, len(places), self.knobs.batch)]

    def score(self, places: Sequence[int], *, hidden: bool = False) -> ScoredRows:
        """log π of samples, with gradients."""
        return self.tuned.scorer.rows([self.rows[place] for place in places], hidden=hidden)

    @torch.no_grad()
    def scores(self, rows: Sequence[TokenRow]) -> list[Tensor]:
        """Log-probabilities of rows without gradients, in the order given."""
        scores: dict[int, Tensor] = {}
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        for start in range(0, len(order), _SCORED_ROWS):
            few = order[start : start + _SCORED_ROWS]
            scored = self.tuned.scorer.rows([rows[place] for place in few])
            for line, place in enumerate(few):
                scores[place] = scored.logprobs[line, : len(rows[place].reply)].clone()
        return [scores[place] for place in range(len(rows))]

    def padded(self, vectors: Sequence[Tensor], places: Sequence[int]) -> Tensor:
        """[row, token] of one vector per sample, with zeros after its end."""
        chosen = [vectors[place] for place in places]
        return torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True)

    def column(self, values: Sequence[Any], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.tuned.scorer.device)


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


@dataclass(slots=True)
class KlController:
    """The budget grows evenly over the run. Beyond the path the rate is halved; below half of it, it rises.

    controller.after(kl, progress)      # after an update; the factor of the learning rate is `factor`
    controller.spent                    # the budget is used up: stop
    """

    budget: float
    factor: float = 1.0
    smooth: float = 0.0
    looks: int = 0
    hold: int = 0  # updates until the next change, so that one shows its effect first

    @property
    def spent(self) -> bool:
        return self.smooth >= self.budget

    def path(self, progress: float) -> float:
        """The distance that the run may have at this share of its updates."""
        return self.budget * (_WARM + (1.0 - _WARM) * progress)

    def after(self, kl: float, progress: float) -> None:
        self.looks += 1
        self.smooth = kl if self.looks == 1 else _SMOOTH * kl + (1.0 - _SMOOTH) * self.smooth
        self.hold = max(0, self.hold - 1)
        path = self.path(progress)
        if self.smooth > path and self.hold == 0:
            self.factor, self.hold = max(self.factor * _SLOWER, _LEAST), 3
        elif self.smooth < 0.5 * path and self.hold == 0:
            self.factor, self.hold = min(self.factor * _FASTER, _MOST), 1

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> KlController:
        return cls(**state)

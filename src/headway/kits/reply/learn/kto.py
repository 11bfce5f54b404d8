"""The learner `kto`: graded KTO from the base, on the whole history of ratings each time.

At this size that is cheap, it does not drift, and withdrawing a rating is exact: the next adapter is bit for bit the
one that would have come without it. A reply is pushed above or below a reference z, the mean shift of replies to other
prompts. Prompts with a good and a bad reply become pairs. Liked and edited replies add their likelihood.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.kits.reply.learn.data import Sample
from headway.kits.reply.learn.losses import graded_kto, likelihood, pairs, shifts
from headway.kits.reply.learn.objective import LossOfRows, TrainingObjective, TrainingState
from headway.kits.reply.learn.scorer import TokenRow

_KEPT = 0.9  # of the reference, at each look


def beta_for(ratings: int) -> float:
    """β by the number of ratings: few must count for more."""
    return 0.2 if ratings < 30 else 0.05 if ratings > 300 else 0.1


class Kto(TrainingObjective):
    """Graded KTO."""

    name = "kto"

    def __init__(self, *, beta: float = 0.0, likelihood: float = 0.1, mismatched: float = 0.5, seed: int = 0) -> None:
        self.beta, self.likelihood, self._share, self._seed = beta, likelihood, mismatched, seed
        self.reference = 0.0
        self._rivals: dict[int, int] = {}  # place → a sample of the other sign for the same prompt
        self._others: list[TokenRow] = []  # every prompt with the reply to another one
        self._others_base: list[Tensor] = []

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        return list(samples)

    def prepare(self, trainer: TrainingState) -> None:
        self.beta = self.beta or beta_for(len(trainer.samples))
        self._rivals = _rivals(trainer.samples)
        places = list(range(len(trainer.rows)))
        random.Random(f"{self._seed}/mismatched").shuffle(places)
        turned = dict(zip(places, places[1:] + places[:1], strict=True))
        self._others = [
            TokenRow(trainer.rows[place].prompt, trainer.rows[turned[place]].reply) for place in range(len(places))
        ]
        if self._share > 0.0:
            with trainer.tuned.adapter.off():
                self._others_base = trainer.scores(self._others)

    def loss(self, trainer: TrainingState, places: Sequence[int], epoch: int) -> LossOfRows:  # noqa: ARG002
        self._look(trainer, places)
        rivals = [self._rivals[place] for place in places if place in self._rivals]
        scored = trainer.score([*places, *rivals])
        shift = shifts(
            scored.logprobs, trainer.padded(trainer.base, [*places, *rivals]), scored.mask, trainer.mean_length
        )
        samples = [trainer.samples[place] for place in places]
        weights = trainer.column([sample.weight for sample in samples])
        desirable = trainer.column([sample.desirable for sample in samples], torch.bool)
        liked = weights * trainer.column([sample.liked for sample in samples])
        count = len(places)
        graded = graded_kto(shift[:count], desirable, weights, self.reference, self.beta)
        nll = likelihood(scored.logprobs[:count], scored.mask[:count], liked)
        loss = graded + self.likelihood * nll
        if rivals:
            own = [line for line, place in enumerate(places) if place in self._rivals]
            sign = trainer.column([1.0 if samples[line].desirable else -1.0 for line in own])
            better = torch.where(sign > 0, shift[own], shift[count:])
            worse = torch.where(sign > 0, shift[count:], shift[own])
            loss = loss + pairs(better, worse, weights[own], self.beta) * (len(own) / count)
        told = shift[:count].detach()
        metrics = {
            "policy_loss": float(graded.detach()),
            "likelihood": float(nll.detach()),
            "reward": sum(sample.reward for sample in samples) / count,
            "reference": self.reference,
            "shift_good": _mean(told[desirable]),
            "shift_bad": _mean(told[~desirable]),
        }
        return LossOfRows(loss, metrics)

    def _look(self, trainer: TrainingState, places: Sequence[int]) -> None:
        """Move the reference towards the mean shift of some mismatched pairs; never below 0, never a gradient."""
        few = places[: max(1, round(len(places) * self._share))] if self._share else ()
        if not few or len(trainer.rows) < 2:
            return
        now = trainer.scores([self._others[place] for place in few])
        scale = [(trainer.mean_length / len(line)) ** 0.5 for line in now]
        moved = [
            float((line - self._others_base[place]).sum()) * factor
            for line, place, factor in zip(now, few, scale, strict=True)
        ]
        self.reference = _KEPT * self.reference + (1.0 - _KEPT) * max(0.0, sum(moved) / len(moved))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"reference": self.reference}

    def load(self, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.reference = float(told["reference"])


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0


def _rivals(samples: Sequence[Sample]) -> dict[int, int]:
    """For each sample whose prompt also has one of the other sign: the clearest such one."""
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for place, sample in enumerate(samples):
        by_prompt.setdefault(sample.prompt, []).append(place)
    rivals: dict[int, int] = {}
    for places in by_prompt.values():
        for place in places:
            others = [other for other in places if samples[other].desirable is not samples[place].desirable]
            if others:
                rivals[place] = max(others, key=lambda other: (samples[other].weight, -other))
    return rivals

"""The learner `ppo`: proximal policy optimisation on logged replies, made correct for data that others wrote.

A reply was written by μ, whose log-probabilities are stored. At the start of every epoch the current policy becomes
the proximal one, π_k: rewards, values and advantages are computed with it, and the ratio π/π_k is exactly 1. Tokens
count by min(2, π_k/μ), and replies too far from their writer are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.kits.reply.knobs import LanguageKnobs
from headway.kits.reply.learn.data import Sample
from headway.kits.reply.learn.losses import (
    advantages,
    logger_weights,
    policy_loss,
    scaled,
    shrunk_values,
    token_rewards,
    value_loss,
)
from headway.kits.reply.learn.objective import LossOfRows, TrainingObjective, TrainingState

_FEW = 100  # ratings below which λ is 1
_KEPT = ("proximal", "values", "advantage", "returns", "weights")  # one vector per sample, made every epoch


class ValueHead(nn.Module):
    """The expected reward after each token, −1 to 1, from the detached last hidden state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        values: Tensor = torch.tanh(self.linear(self.norm(hidden.detach())))[..., 0]
        return values


class Ppo(TrainingObjective):
    """PPO on logged replies."""

    name = "ppo"

    def __init__(self, knobs: LanguageKnobs) -> None:
        self.knobs = knobs
        self.head: ValueHead | None = None
        self.vectors: dict[str, list[Tensor]] = {}
        self.dropped: set[int] = set()
        self.first_ratios: tuple[float, float] = (1.0, 1.0)  # smallest and largest of an epoch's first update
        self._fresh = True

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        """Replies that this base wrote: a ratio needs the probabilities with which they were drawn."""
        return [sample for sample in samples if sample.logged and len(sample.logged) == len(sample.reply)]

    def prepare(self, trainer: TrainingState) -> None:
        width = trainer.tuned.network.config.get_text_config().hidden_size
        self.head = ValueHead(width).to(trainer.tuned.scorer.device)
        rewards = [sample.reward for sample in trainer.samples]
        self.mean = sum(rewards) / max(1, len(rewards))
        self.lam = self.knobs.lam or (1.0 if len(rewards) < _FEW else 0.95)

    @torch.no_grad()
    def begin_epoch(self, trainer: TrainingState, epoch: int) -> None:
        """The current policy becomes the proximal one; scored in the epoch's own batches, so that the ratio is 1."""
        self.vectors = {name: [torch.empty(0)] * len(trainer.rows) for name in _KEPT}
        self.dropped = set()
        for places in (few for update in trainer.plan(epoch) for few in trainer.passes(update)):
            self._judge(trainer, places)
        deviation = float(torch.cat(self.vectors["advantage"]).square().mean().sqrt())
        self.vectors["advantage"] = [scaled(vector, deviation) for vector in self.vectors["advantage"]]
        self._fresh = True

    def _judge(self, trainer: TrainingState, places: Sequence[int]) -> None:
        """Rewards, values and advantages of samples under the proximal policy."""
        samples = [trainer.samples[place] for place in places]
        scored = trainer.score(places, hidden=True)
        assert scored.hidden is not None
        proximal, mask = scored.logprobs, scored.mask
        logged = trainer.padded([trainer.column(sample.logged) for sample in samples], range(len(samples)))
        far = ((proximal - logged).abs() * mask).sum(-1) / mask.sum(-1) > self.knobs.far
        self.dropped |= {place for place, dropped in zip(places, far.tolist(), strict=True) if dropped}
        values = self._values(scored.hidden, len(trainer.rows))
        ends = trainer.column([sample.reward for sample in samples])
        rewards = token_rewards(proximal, trainer.padded(trainer.base, places), mask, ends, self.knobs.penalty)
        advantage = advantages(rewards, values, mask, lam=self.lam)
        kept = (proximal, values, advantage, advantage + values, logger_weights(proximal, logged, mask))
        for name, table in zip(_KEPT, kept, strict=True):
            for line, place in enumerate(places):
                self.vectors[name][place] = table[line, : len(trainer.rows[place].reply)].clone()

    def _values(self, hidden: Tensor, ratings: int) -> Tensor:
        assert self.head is not None
        return shrunk_values(self.head(hidden), self.mean, ratings)

    def loss(self, trainer: TrainingState, places: Sequence[int], epoch: int) -> LossOfRows:
        del epoch
        scored = trainer.score(places, hidden=True)
        assert scored.hidden is not None
        inside = trainer.column([float(place not in self.dropped) for place in places])[:, None]
        vectors = {name: trainer.padded(values, places) for name, values in self.vectors.items()}
        weight = trainer.column([trainer.samples[place].weight for place in places])[:, None].clamp(max=2.0)
        mask = scored.mask * inside
        policy = policy_loss(
            scored.logprobs, vectors["proximal"], vectors["weights"] * weight, vectors["advantage"], mask
        )
        values = self._values(scored.hidden, len(trainer.rows))
        critic = value_loss(values, vectors["values"], vectors["returns"], mask)
        if self._fresh and float(mask.sum()):
            ratios = policy.ratio[mask.bool()]
            self.first_ratios, self._fresh = (float(ratios.min()), float(ratios.max())), False
        samples = [trainer.samples[place] for place in places]
        metrics = {
            "policy_loss": float(policy.loss.detach()),
            "value_loss": float(critic.detach()),
            "reward": sum(sample.reward for sample in samples) / len(samples),
            "clip_fraction": float(policy.clipped),
            "dropped": float(len(self.dropped)),
        }
        return LossOfRows(policy.loss + self.knobs.value * critic, metrics)

    def extra_parameters(self) -> list[dict[str, Any]]:
        assert self.head is not None
        return [{"params": list(self.head.parameters()), "lr": self.knobs.value_rate}]

    def modules(self) -> Mapping[str, nn.Module]:
        return {} if self.head is None else {"value": self.head}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        lengths = [len(vector) for vector in self.vectors.get("proximal", ())]
        tensors = {name: torch.cat(vectors) for name, vectors in self.vectors.items() if lengths}
        return tensors, {"lengths": lengths, "dropped": sorted(self.dropped), "fresh": self._fresh}

    def load(self, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:
        assert self.head is not None
        where = self.head.linear.weight.device
        self.vectors = {name: list(torch.split(vector.to(where), told["lengths"])) for name, vector in tensors.items()}
        self.dropped, self._fresh = set(told["dropped"]), bool(told["fresh"])

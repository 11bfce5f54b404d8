"""Starts a training from what a teacher does, before it practises.

    agreement = imitate(training, "best schedule")

A world may have teachers (`FactoredWorld.teacher`). The teacher plays an episode or several in every copy, and the
network learns its choices. Every operation and head counts the same, however rarely it is used. The entropy bonus of
practice counts here too, `imitate_doubt` times over, so that the policy doubts a little and practice can still explore.
Then the network acts, and its critic alone learns: practice with a critic that does not know the policy would undo what
was imitated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from headway.kits.grow.collect import FactoredStage, Sequences
from headway.kits.grow.objective import Choices, chosen, entropy_bonus
from headway.kits.grow.sequences import Packed
from headway.kits.grow.update import forward, judge, masks_of, minibatches, precision, rescale, take_step
from headway.kits.practice import ppo
from headway.nouns import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from headway.kits.grow.knobs import RecurrentKnobs
    from headway.kits.grow.network import RecurrentNetwork
    from headway.kits.grow.worlds import FactoredWorld


_SEED = 5_003  # apart from that of practice
_ROUNDS = 8  # rollouts from which the critic alone learns


class Imitating(Protocol):
    """What imitation needs of a training."""

    make: Callable[[int], FactoredWorld]
    knobs: RecurrentKnobs
    seed: int
    network: RecurrentNetwork
    stage: FactoredStage
    rng: np.random.Generator

    @property
    def horizon(self) -> int: ...


def imitate(training: Imitating, teacher: str) -> float:
    """Learn what the teacher does; how often the network's likeliest operation is then the teacher's."""
    knobs, network = training.knobs, training.network
    world = training.make(knobs.envs * knobs.imitate_episodes)
    find, horizon = getattr(world, "teacher", None), int(getattr(world, "horizon", 0))
    if find is None or not horizon:
        raise InvalidInput(
            f"This world has no teachers, so there is no {teacher!r} to imitate.",
            code="unknown_choice",
            hint="Omit the knob imitate.",
        )
    stage = FactoredStage(world, network, seed=training.seed + _SEED, scale=knobs.scale)
    sequences = stage.collect(horizon, teacher=find(teacher))
    world.close()
    groups = minibatches(sequences, knobs, training.rng, str(network.means.device))
    whole = replace(knobs, lam=1.0)  # returns are what the episodes came to
    judged = judge(network, sequences, groups, whole, stage.rng)
    if knobs.returns == "popart":
        rescale(network, judged.returns)
    mean, deviation = network.value_scale
    returns = (torch.as_tensor(judged.returns.ravel(), device=network.means.device) - mean) / deviation
    optimiser = torch.optim.Adam(network.parameters(), lr=knobs.imitate_rate, eps=1e-5)
    for _ in range(knobs.imitate_passes):
        for packed in groups:
            take_step(network, optimiser, _loss(training, sequences, packed, returns[packed.order]), knobs)
        groups = minibatches(sequences, knobs, training.rng, str(network.means.device))
    agreement = _agreement(training, sequences, groups)
    _fit_critic(training)
    return agreement


def _fit_critic(training: Imitating) -> None:
    """The network acts in the copies of practice, and its critic learns what that comes to; nothing else changes."""
    knobs, network = training.knobs, training.network
    device = network.means.device
    critic = [parameter for name, parameter in network.named().items() if name.startswith("value.")]
    optimiser = torch.optim.Adam(critic, lr=1e-3)
    for _ in range(_ROUNDS):
        sequences = training.stage.collect(training.horizon, chunk=knobs.chunk)
        groups = minibatches(sequences, knobs, training.rng, str(device))
        judged = judge(network, sequences, groups, knobs, training.stage.rng, training.stage.now[2])
        if knobs.returns == "popart":
            rescale(network, judged.returns)
        mean, deviation = network.value_scale
        returns = (torch.as_tensor(judged.returns.ravel(), device=device) - mean) / deviation
        with torch.no_grad(), precision(network, knobs):
            outputs = [forward(network, sequences, packed).float() for packed in groups]
        lead = sequences.actions.reshape(sequences.steps, -1)[:, 0]
        for _ in range(knobs.epochs):
            for output, packed in zip(outputs, groups, strict=True):
                value = network.value(output, None if network.shape.critic == "state" else lead[packed.order])
                optimiser.zero_grad(set_to_none=True)
                (value - returns[packed.order]).square().mean().backward()
                optimiser.step()


def _seen(training: Imitating, sequences: Sequences, packed: Packed) -> tuple[Tensor, Choices, Tensor]:
    network, space = training.network, training.network.shape.space
    actions = sequences.actions.reshape(-1, len(space.heads))[packed.order]
    with precision(network, training.knobs):
        output = forward(network, sequences, packed)
        scores = network.scores(output)
        value = network.value(output, None if network.shape.critic == "state" else actions[:, 0])
    return value, chosen(space, scores, masks_of(sequences, packed.order), actions), actions[:, 0]


def _loss(training: Imitating, sequences: Sequences, packed: Packed, returns: Tensor) -> Tensor:
    knobs = training.knobs
    value, choices, lead = _seen(training, sequences, packed)
    first, *others = training.network.shape.space.names
    taken = torch.stack([lead == choice for choice in range(training.network.shape.space.sizes[0])])
    parts = [ppo.masked_mean(choices.logs[first], where) * where.any() for where in taken]
    parts += [ppo.masked_mean(choices.logs[head], choices.counts[head]) for head in others]
    wrong = -torch.stack(parts).sum()
    doubt = knobs.entropy * knobs.imitate_doubt * entropy_bonus(choices, knobs.entropy_heads, by="head")
    return wrong - doubt + knobs.value * (value - returns).square().mean()


@torch.no_grad()
def _agreement(training: Imitating, sequences: Sequences, groups: list[Packed]) -> float:
    """The share of steps in which the teacher's operation has a probability above one half."""
    lead = training.network.shape.space.lead.name
    shares = [_seen(training, sequences, packed)[1].logs[lead].exp() > 0.5 for packed in groups]
    return float(torch.cat(shares).float().mean())

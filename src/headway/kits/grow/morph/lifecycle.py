"""The life of a seed: stages, what moves a seed from one to the next, gates, and how alpha moves.

`TRANSITIONS` is every move that exists, by what causes it: an operation of the policy, or "epoch", "arrived" (alpha
reached its target), "faded" (alpha reached 0 after PRUNE), "served" (the embargo is over). `GATES` says for every
operation which stages it applies to and on which further condition. Masks are computed from the same gates that the
world checks, so an operation that a mask allows is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache

import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import BLUEPRINTS, EMPTY, NAMES, OPS, SLOTS, TEMPOS

EMBARGO = 5  # epochs before a pruned slot is reset


class SeedStage(IntEnum):
    """UNKNOWN is a slot that a world does not have."""

    UNKNOWN = 0
    DORMANT = 1
    GERMINATED = 2
    TRAINING = 3
    BLENDING = 4
    HOLDING = 5
    FOSSILIZED = 6
    PRUNED = 7
    EMBARGOED = 8
    RESETTING = 9


S = SeedStage
_ACTIVE = (S.GERMINATED, S.TRAINING, S.BLENDING, S.HOLDING)

TRANSITIONS: Mapping[tuple[SeedStage, str], SeedStage] = {
    (S.DORMANT, "GERMINATE"): S.GERMINATED,
    (S.GERMINATED, "epoch"): S.TRAINING,
    (S.TRAINING, "ADVANCE"): S.BLENDING,
    (S.BLENDING, "arrived"): S.HOLDING,
    (S.BLENDING, "SET_ALPHA_TARGET"): S.BLENDING,
    (S.HOLDING, "SET_ALPHA_TARGET"): S.BLENDING,
    (S.HOLDING, "FOSSILIZE"): S.FOSSILIZED,
    **{(stage, "PRUNE"): S.PRUNED for stage in _ACTIVE},
    (S.BLENDING, "faded"): S.PRUNED,
    (S.PRUNED, "epoch"): S.EMBARGOED,
    (S.EMBARGOED, "served"): S.RESETTING,
    (S.RESETTING, "epoch"): S.DORMANT,
}


@dataclass(frozen=True, slots=True)
class Gate:
    """Which stages an operation applies to, and on which further condition (in words; `allowed` computes it)."""

    stages: tuple[SeedStage, ...]
    condition: str = ""


GATES: Mapping[str, Gate] = {
    "GERMINATE": Gate((S.DORMANT,), "some blueprint fits the budget of parameters"),
    "ADVANCE": Gate((S.TRAINING,), "trained for at least `tempo` epochs with finite gradients"),
    "SET_ALPHA_TARGET": Gate((S.BLENDING, S.HOLDING), "not fading"),
    "PRUNE": Gate(_ACTIVE, "not fading"),
    "FOSSILIZE": Gate((S.HOLDING,), "its contribution to validation accuracy is above 0"),
}


_EMPTY = {"stage": int(S.DORMANT), "blueprint": EMPTY, "tempo": TEMPOS[0]}  # of a slot without a seed; other fields: 0
_FLOATS = (
    "alpha", "alpha_start", "alpha_target", "contribution", "velocity", "interaction", "boost", "gradient",
)  # fmt: skip


@dataclass(slots=True)
class Slots:
    """The state of every slot of every host, [host, slot] each."""

    stage: Tensor
    age: Tensor  # epochs in this stage
    blueprint: Tensor
    style: Tensor
    tempo: Tensor  # epochs
    alpha: Tensor
    alpha_start: Tensor
    alpha_target: Tensor
    ramp: Tensor  # epochs from start to target
    ramped: Tensor  # epochs since the start
    curve: Tensor
    fading: Tensor  # alpha goes to 0, then the seed is pruned
    seed: Tensor  # id, unique in a host's episode; 0: none
    contribution: Tensor  # leave-one-out, in accuracy
    velocity: Tensor  # its last change
    interaction: Tensor  # mean over the partners
    boost: Tensor  # the largest positive interaction
    gradient: Tensor  # norm of the last one
    counted: Tensor  # epochs since the contribution was last measured

    @classmethod
    def dormant(cls, count: int, device: torch.device) -> Slots:
        """Slots without seeds."""
        made = {}
        for one in fields(cls):
            kind = torch.float32 if one.name in _FLOATS else torch.bool if one.name == "fading" else torch.int64
            made[one.name] = torch.full((count, SLOTS), _EMPTY.get(one.name, 0), dtype=kind, device=device)
        return cls(**made)

    def put(self, where: Tensor, **values: Tensor | float) -> None:
        """Set fields where `where` [host, slot] is true."""
        for name, value in values.items():
            old = getattr(self, name)
            if isinstance(value, Tensor):
                setattr(self, name, torch.where(where, value.to(old.dtype), old))
            else:
                setattr(self, name, old.masked_fill(where, value))

    def clear(self, where: Tensor) -> None:
        """Remove the seeds where `where` is true; stage and age stay."""
        kept = ("stage", "age")
        self.put(where, **{one.name: _EMPTY.get(one.name, 0) for one in fields(self) if one.name not in kept})

    def is_in(self, *stages: SeedStage) -> Tensor:
        return _among(self.stage.device, stages)[self.stage]


# Constants of a device are made once: a transfer would wait for everything before it.


@lru_cache(maxsize=64)
def _among(device: torch.device, stages: tuple[SeedStage, ...]) -> Tensor:
    return torch.tensor([stage in stages for stage in SeedStage], device=device)


@lru_cache(maxsize=64)
def after_table(device: torch.device, cause: str) -> Tensor:
    """[stage]: the stage after this cause; the same one where `TRANSITIONS` has no move."""
    return torch.tensor([int(TRANSITIONS.get((stage, cause), stage)) for stage in SeedStage], device=device)


@lru_cache(maxsize=64)
def constants(device: torch.device, values: tuple[float, ...]) -> Tensor:
    """Constants to be indexed by choices."""
    return torch.tensor(values, device=device)


@lru_cache(maxsize=8)
def parameters_of(device: torch.device) -> Tensor:
    """By index of blueprint: its parameters; 0 for NOOP and an empty slot."""
    known = [BLUEPRINTS[name].parameters if name in BLUEPRINTS else 0 for name in NAMES]
    return torch.tensor([*known, 0], device=device)


def curved(progress: Tensor, curve: Tensor) -> Tensor:
    """Progress 0…1 of a ramp → how far alpha has moved: linear, cosine, or logistic with steepness 6, 12 or 24."""
    steep = constants(progress.device, (1.0, 1.0, 6.0, 12.0, 24.0))[curve]
    low = torch.sigmoid(-steep / 2)
    logistic = (torch.sigmoid(steep * (progress - 0.5)) - low) / (1 - 2 * low)
    cosine = (1 - torch.cos(torch.pi * progress)) / 2
    return torch.where(curve == 0, progress, torch.where(curve == 1, cosine, logistic))


def allowed(slots: Slots, budget_left: Tensor) -> dict[str, Tensor]:
    """The masks of every head that has one; a blueprint must fit `budget_left` [host], in parameters."""
    device = slots.stage.device
    sizes = parameters_of(device)[: len(NAMES)]
    blueprints = (sizes > 0) & (sizes <= budget_left[:, None])
    blueprints_any = blueprints.any(dim=1, keepdim=True)
    further = {
        "GERMINATE": blueprints_any,
        "ADVANCE": (slots.age >= slots.tempo) & slots.gradient.isfinite(),
        "SET_ALPHA_TARGET": ~slots.fading,
        "PRUNE": ~slots.fading,
        "FOSSILIZE": (slots.contribution > 0) & ~slots.fading,
    }
    waits = torch.ones_like(slots.fading)  # WAIT uses no slot
    by_op = torch.stack([slots.is_in(*GATES[op].stages) & further[op] if op in GATES else waits for op in OPS], dim=1)
    ops = by_op.any(dim=2)
    blueprints = torch.where(blueprints_any, blueprints, sizes > 0)  # irrelevant then: GERMINATE is forbidden
    return {"op": ops, "slot": by_op, "blueprint": blueprints}

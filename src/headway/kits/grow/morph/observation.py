"""What a policy sees of a host: 25 numbers, 29 per slot, and the blueprint of each slot as an index."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from headway.kits.grow.morph.blueprints import OPS, SLOTS
from headway.kits.grow.morph.lifecycle import SeedStage, Slots, constants, parameters_of
from headway.kits.grow.morph.state import WINDOW, History

BASE = (
    "epoch share", "train loss", "validation loss", "change of train loss", "change of validation loss",
    "train accuracy", "validation accuracy", "change of validation accuracy", "plateau", "trend of loss",
    "trend of accuracy", "volatility of loss", "best accuracy", "gap to the best", "budget use",
    "seeds training", "seeds blending", "seeds holding or fossilised", "last action success",
    *(f"last op {op}" for op in OPS),
)  # fmt: skip
PER_SLOT = (
    "active", *(f"stage {stage.name}" for stage in SeedStage),
    "alpha", "alpha target", "ramp progress", "ramp left", "alpha velocity", "alpha direction",
    "contribution", "contribution velocity", "epochs in stage",
    "gradient norm", "gradient health", "gradient vanishing", "gradient exploding",
    "interaction", "boost", "alpha upstream", "alpha downstream", "counterfactual freshness",
)  # fmt: skip
FEATURES = len(BASE) + SLOTS * len(PER_SLOT)
NAMES_OF_FEATURES = (*BASE, *(f"r0c{slot} {name}" for slot in range(SLOTS) for name in PER_SLOT))
FEEDBACK = tuple(range(BASE.index("last action success"), len(BASE)))  # the columns that tell about the last action
_VANISHING, _EXPLODING = 1e-4, 10.0
_LOSS = 2.303  # of a guess among ten


_TIMES = tuple(time - (WINDOW - 1) / 2 for time in range(WINDOW))
_SLOPE = tuple(time / sum(other**2 for other in _TIMES) for time in _TIMES)  # of a line through the window


def observed(history: History, slots: Slots, horizon: int, budget: int) -> Tensor:
    """Features [host, feature], each of the order of one and finite whatever the host does."""
    columns = torch.cat([_base(history, slots, horizon, budget), _slots(slots, horizon).flatten(1)], dim=1)
    return torch.nan_to_num(columns, nan=5.0, posinf=5.0, neginf=-5.0).clamp(-5.0, 5.0)


def _base(history: History, slots: Slots, horizon: int, budget: int) -> Tensor:
    losses, accuracies = history.losses / _LOSS, history.accuracies
    slope = constants(losses.device, _SLOPE)
    used = parameters_of(losses.device)[slots.blueprint].sum(dim=1) / budget
    numbers = [
        history.epoch / horizon,
        history.train_loss / _LOSS,
        losses[:, -1],
        history.train_change / _LOSS,
        losses[:, -1] - losses[:, -2],
        history.train_accuracy,
        accuracies[:, -1],
        10 * (accuracies[:, -1] - accuracies[:, -2]),
        history.plateau / 10,
        10 * (losses @ slope),
        10 * (accuracies @ slope),
        losses.std(dim=1),
        history.best_accuracy,
        history.best_accuracy - accuracies[:, -1],
        used,
        *(slots.is_in(*stages).sum(dim=1) / SLOTS for stages in _COUNTED),
        history.last_success,
    ]
    return torch.cat([torch.stack(numbers, dim=1), functional.one_hot(history.last_op, len(OPS))], dim=1)


_COUNTED = ((SeedStage.TRAINING,), (SeedStage.BLENDING,), (SeedStage.HOLDING, SeedStage.FOSSILIZED))


def _slots(slots: Slots, horizon: int) -> Tensor:
    """[host, slot, feature]."""
    progress = torch.where(slots.ramp > 0, slots.ramped / slots.ramp.clamp(min=1), 1.0).clamp(max=1.0)
    left = (slots.ramp - slots.ramped).clamp(min=0) / 8
    moving = (slots.stage == SeedStage.BLENDING) & (left > 0)
    change = torch.where(moving, (slots.alpha_target - slots.alpha_start) / slots.ramp.clamp(min=1), 0.0)
    has_gradient = slots.gradient > 0
    vanishing = (has_gradient & (slots.gradient < _VANISHING)).float()
    exploding = (slots.gradient > _EXPLODING).float()
    before = slots.alpha.cumsum(dim=1) - slots.alpha
    after = slots.alpha.sum(dim=1, keepdim=True) - before - slots.alpha
    columns = [
        slots.is_in(SeedStage.GERMINATED, SeedStage.TRAINING, SeedStage.BLENDING, SeedStage.HOLDING).float(),
        *functional.one_hot(slots.stage, len(SeedStage)).float().unbind(2),
        slots.alpha,
        slots.alpha_target,
        progress,
        left,
        change,
        change.sign(),
        4 * slots.contribution,
        10 * slots.velocity,
        4 * slots.age / horizon,
        torch.log1p(slots.gradient),
        has_gradient.float() - vanishing - exploding,
        vanishing,
        exploding,
        4 * slots.interaction,
        4 * slots.boost,
        before / SLOTS,
        after / SLOTS,
        torch.exp(-slots.counted / 3.0) * (slots.alpha > 0),
    ]
    return torch.stack([column.float() for column in columns], dim=2)


def described(features: Tensor) -> list[Mapping[str, float]]:
    """Features by name, for reading."""
    return [dict(zip(NAMES_OF_FEATURES, row.tolist(), strict=True)) for row in features]

"""The reward of a step: change in validation accuracy, less rent and the cost of actions; everything in accuracy.

    shaped       dense + potential + hindsight credit
    simplified   Δ accuracy − rent − action cost, every step
    sparse       0 until the end, then final accuracy − the accuracy at the start − all rent and costs

The undiscounted returns of `simplified` and `sparse` are the same number. The discounted sum of the potential part is
−Φ(start), which is 0, so `shaped` prefers the same policies, but for hindsight credit (at most CREDIT_CAP per helper).

**Rent.** A seed costs `RENT · ln(1 + parameters / host parameters) · (0.25 + 0.75 α)` per episode, half of that once it
is fossilised. RENT was fixed before any policy was trained, so that growing everything at once nets well below a fixed
schedule (docs/how-to/morph.md has the figures), and is frozen with the preset.

What each seed adds, from the accuracies of all subsets of seeds.

`accuracies` [host, 2ⁿ] has bit `slot` set where that slot's seed is kept. All values are exact: every subset was run.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial
from typing import Literal

import torch
from torch import Tensor

from headway.kits.grow.morph.host import TRUNK
from headway.kits.grow.morph.lifecycle import SeedStage, Slots, constants, parameters_of

RewardMode = Literal["shaped", "simplified", "sparse"]
RENT = 0.10
FOSSIL_SHARE = 0.5
IDLE_SHARE = 0.25  # of the rent that a seed costs at alpha 0
ACTION_COST = 0.001  # of every operation but WAIT
PENALTY = 0.1  # when the governor ends an episode
POTENTIAL = 0.03  # of a seed that holds; on the way there by stage
CREDIT = 0.1  # of what a seed helped another one with, when that one fossilises
CREDIT_CAP = 0.02
_PROGRESS = {
    SeedStage.GERMINATED: 0.2,
    SeedStage.TRAINING: 0.4,
    SeedStage.BLENDING: 0.7,
    SeedStage.HOLDING: 1.0,
    SeedStage.FOSSILIZED: 1.0,
}


def rent(slots: Slots, horizon: int, price: float = RENT) -> Tensor:
    """[host]: what the seeds of a host cost in one epoch."""
    sizes = torch.log1p(parameters_of(slots.stage.device) / TRUNK)[slots.blueprint]
    use = IDLE_SHARE + (1 - IDLE_SHARE) * slots.alpha
    share = torch.where(slots.stage == SeedStage.FOSSILIZED, FOSSIL_SHARE, 1.0)
    return (price / horizon) * (sizes * use * share).sum(dim=1)


def potential(slots: Slots) -> Tensor:
    """Φ [host]: how far the best-advanced seed of a host is on its way. It depends on the state of the whole host."""
    table = constants(slots.stage.device, tuple(_PROGRESS.get(stage, 0.0) for stage in SeedStage))
    return POTENTIAL * table[slots.stage].amax(dim=1)


def shaping(before: Tensor, after: Tensor, ended: Tensor, discount: float) -> Tensor:
    """γΦ(next) − Φ(now), with Φ = 0 after the end (Ng, Harada and Russell, 1999): no policy gains or loses by it."""
    return discount * torch.where(ended, 0.0, after) - before


def credited(helped: Tensor, fossilised: Tensor) -> Tensor:
    """[host, helper]: credit of earlier seeds for what they did for those that fossilise now [host, slot].

    `helped` [host, helper, helped] adds up positive interactions of two seeds. It is keyed by seed: a new seed in
    either slot starts at 0, and a helper that was pruned meanwhile keeps what it has earned.
    """
    earned = (CREDIT * helped).clamp(max=CREDIT_CAP)
    return (earned * fossilised[:, None, :]).sum(dim=2)


def _sums(accuracies: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums over the subsets [host, …]; not as a product of matrices, which GPUs round."""
    return (accuracies[:, None] * weights).sum(dim=2)


def leave_one_out(accuracies: Tensor) -> Tensor:
    """[host, slot]: accuracy with all seeds, less accuracy without this one."""
    return _sums(accuracies, _alone(accuracies.shape[1], accuracies.device))


def interactions(accuracies: Tensor) -> Tensor:
    """[host, slot, slot]: how much two seeds add together beyond what each adds alone, the third being kept."""
    weights = _together(accuracies.shape[1], accuracies.device)
    count = weights.shape[0]
    return _sums(accuracies, weights.flatten(0, 1)).view(-1, count, count)


def shapley(accuracies: Tensor) -> Tensor:
    """[host, slot]: the mean over all orders in which seeds could be added of what each adds (Shapley, 1953)."""
    return _sums(accuracies, _orders(accuracies.shape[1], accuracies.device))


# The weights of subsets, made once for a device.
@lru_cache(maxsize=8)
def _alone(subsets: int, device: torch.device) -> Tensor:
    """[slot, subset]."""
    count, whole = subsets.bit_length() - 1, subsets - 1
    weights = torch.zeros(count, subsets)
    for slot in range(count):
        weights[slot, whole], weights[slot, whole ^ 1 << slot] = 1, -1
    return weights.to(device)


@lru_cache(maxsize=8)
def _together(subsets: int, device: torch.device) -> Tensor:
    """[slot, slot, subset]; 0 for a slot with itself."""
    count, whole = subsets.bit_length() - 1, subsets - 1
    weights = torch.zeros(count, count, subsets)
    for one in range(count):
        for other in range(count):
            if one != other:
                both = 1 << one | 1 << other
                weights[one, other, [whole, whole ^ both]] = 1
                weights[one, other, [whole ^ 1 << one, whole ^ 1 << other]] = -1
    return weights.to(device)


@lru_cache(maxsize=8)
def _orders(subsets: int, device: torch.device) -> Tensor:
    """[slot, subset]."""
    count = subsets.bit_length() - 1
    weights = torch.zeros(count, subsets)
    for subset in range(subsets):
        size = subset.bit_count()
        for slot in range(count):
            if not subset >> slot & 1:
                share = factorial(size) * factorial(count - size - 1) / factorial(count)
                weights[slot, subset] -= share
                weights[slot, subset | 1 << slot] += share
    return weights.to(device)

"""What each seed adds, from the accuracies of all subsets of seeds.

`accuracies` [host, 2ⁿ] has bit `slot` set where that slot's seed is kept. All values are exact: every subset was run.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial

import torch
from torch import Tensor


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

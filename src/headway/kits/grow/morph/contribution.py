"""What each seed adds, from the accuracies of all subsets of seeds.

`accuracies` [host, 2ⁿ] has bit `slot` set where that slot's seed is kept. All values are exact: every subset was run.
"""

from __future__ import annotations

from math import factorial

import torch
from torch import Tensor

__all__ = ["interactions", "leave_one_out", "shapley"]


def _slots(accuracies: Tensor) -> int:
    return int(accuracies.shape[1]).bit_length() - 1


def leave_one_out(accuracies: Tensor) -> Tensor:
    """[host, slot]: accuracy with all seeds, less accuracy without this one."""
    whole = accuracies.shape[1] - 1
    return torch.stack(
        [accuracies[:, whole] - accuracies[:, whole ^ 1 << slot] for slot in range(_slots(accuracies))], 1
    )


def interactions(accuracies: Tensor) -> Tensor:
    """[host, slot, slot]: how much two seeds add together beyond what each adds alone, the third being kept."""
    count = _slots(accuracies)
    whole = accuracies.shape[1] - 1
    pairs = accuracies.new_zeros(len(accuracies), count, count)
    for one in range(count):
        for other in range(one):
            both = 1 << one | 1 << other
            value = (
                accuracies[:, whole]
                - accuracies[:, whole ^ 1 << one]
                - accuracies[:, whole ^ 1 << other]
                + accuracies[:, whole ^ both]
            )
            pairs[:, one, other] = pairs[:, other, one] = value
    return pairs


def shapley(accuracies: Tensor) -> Tensor:
    """[host, slot]: the mean over all orders in which seeds could be added of what each adds (Shapley, 1953)."""
    count = _slots(accuracies)
    shares = accuracies.new_zeros(len(accuracies), count)
    for subset in range(1 << count):
        size = subset.bit_count()
        for slot in range(count):
            if not subset >> slot & 1:
                weight = factorial(size) * factorial(count - size - 1) / factorial(count)
                shares[:, slot] += weight * (accuracies[:, subset | 1 << slot] - accuracies[:, subset])
    return shares

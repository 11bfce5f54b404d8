"""Rollouts as sequences: cut where episodes end, and packed so that no row is padding.

    packed = pack(begins, rows=[0, 3, 5])          # begins bool [time, copy]: where a segment starts
    packed.order                                   # int [row]: into the rollout, flattened [time × copy]
    packed.sizes                                   # int64 [step]: how many segments have this step
    packed.first                                   # int [segment]: the flat place where each segment starts

The rows of a packed sequence are ordered by their step in the segment, and within it by the length of the segments,
longest first. The LSTM runs over it as it is; everything else of the network sees plain rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packed:
    """The order of rows in which segments are learned from."""

    order: Tensor  # int64 [row]
    sizes: Tensor  # int64 [step], on the CPU
    first: Tensor  # int64 [segment]
    lengths: Ints  # [segment], longest first

    def past(self, count: int, there: Tensor) -> Tensor:
        """[row, count]: where the outputs before each row are, newest first.

        Among the rows in packed order, then the stored past of each segment ([segment, count], flat), then one row
        that stands for "none".
        """
        sizes = self.sizes.numpy()
        offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        rows, segments = int(sizes.sum()), len(self.lengths)
        step = np.repeat(np.arange(len(sizes)), sizes)
        segment = np.arange(rows) - offsets[step]
        stored = there.detach().cpu().numpy() > 0.5
        place = np.full((rows, count), rows + segments * count, dtype=np.int64)
        for back in range(1, count + 1):
            inside = step >= back
            place[inside, back - 1] = offsets[step[inside] - back] + segment[inside]
            older = back - 1 - step[~inside]  # the place among the stored ones, newest first
            known = stored[segment[~inside], older]
            place[np.flatnonzero(~inside)[known], back - 1] = rows + segment[~inside][known] * count + older[known]
        return torch.as_tensor(place, device=self.order.device)


def pack(begins: NDArray[np.bool_], rows: Ints, device: str = "cpu") -> Packed:
    """The packed order of these copies' segments."""
    length, count = begins.shape
    chosen = np.ascontiguousarray(begins[:, rows].T)  # [copy, time]
    chosen[:, 0] = True
    flat = np.flatnonzero(chosen)
    lengths = np.diff(np.append(flat, chosen.size))
    longest = np.argsort(-lengths, kind="stable")
    lengths, flat = lengths[longest], flat[longest]
    first = (flat % length) * count + rows[flat // length]
    sizes = (lengths[None] > np.arange(lengths[0])[:, None]).sum(axis=1)
    order = np.concatenate([first[:size] + step * count for step, size in enumerate(sizes.tolist())])
    return Packed(
        order=torch.as_tensor(order, device=device),
        sizes=torch.as_tensor(sizes.astype(np.int64)),
        first=torch.as_tensor(first.astype(np.int64), device=device),
        lengths=lengths,
    )

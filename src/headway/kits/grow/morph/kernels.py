"""What seeds compute, for many seeds at once: x [seed, sample, position, channel] → the same shape.

`fresh` draws the parameters of new seeds, `delta` applies those of one kernel. Blocks after the last non-linearity
start at 0, so a new seed computes 0 and its gradient is not 0.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import (
    BLUEPRINTS,
    CHANNELS,
    HIDDEN,
    KERNELS,
    NAMES,
    POSITIONS,
    WIDTH,
    Blueprint,
    Kernel,
    layout,
)

_SIDE = 4  # of the grid of patches


def row_size(kernel: Kernel) -> int:
    """How many numbers a seed of this kernel has, padding included."""
    return sum(layout(kernel).values())


ROW = max(row_size(kernel) for kernel in KERNELS)


@lru_cache(maxsize=8)
def _neighbours(device: torch.device, dtype: torch.dtype) -> Tensor:
    """[from × to, offset]: 1 where `from` is at this one of the nine offsets from `to`."""
    table = torch.zeros(POSITIONS, POSITIONS, 9)
    for origin in range(POSITIONS):
        for target in range(POSITIONS):
            down, right = origin // _SIDE - target // _SIDE, origin % _SIDE - target % _SIDE
            if abs(down) <= 1 and abs(right) <= 1:
                table[origin, target, (down + 1) * 3 + right + 1] = 1.0
    return table.view(POSITIONS**2, 9).to(device, dtype)


def _conv(x: Tensor, blocks: tuple[Tensor, ...], blueprints: Tensor) -> Tensor:
    """A 3×3 convolution as one 128×128 matrix per seed, ReLU, and a mix of channels."""
    inner, inner_bias, outer, outer_bias = blocks
    count, samples = x.shape[:2]
    matrix = torch.matmul(_neighbours(x.device, x.dtype), inner.view(count, 9, CHANNELS**2))
    matrix = matrix.view(count, POSITIONS, POSITIONS, CHANNELS, CHANNELS).transpose(2, 3).reshape(count, WIDTH, WIDTH)
    bias = inner_bias.repeat(1, POSITIONS)[:, None]
    hidden = torch.baddbmm(bias, x.reshape(count, samples, WIDTH), matrix).relu_()
    hidden = hidden.view(count, samples * POSITIONS, CHANNELS)
    return torch.baddbmm(outer_bias[:, None], hidden, outer.view(count, CHANNELS, CHANNELS)).view(x.shape)


def _depthwise(x: Tensor, blocks: tuple[Tensor, ...], blueprints: Tensor) -> Tensor:
    """A 3×3 convolution of each channel alone, ReLU, and a mix of channels."""
    inner, inner_bias, outer, outer_bias = blocks
    count, samples = x.shape[:2]
    matrix = torch.matmul(_neighbours(x.device, x.dtype), inner.view(count, 9, CHANNELS))  # [seed, from × to, channel]
    matrix = matrix.view(count, POSITIONS, POSITIONS, CHANNELS).permute(0, 3, 1, 2)
    hidden = torch.matmul(x.permute(0, 3, 1, 2), matrix).permute(0, 2, 3, 1)  # [seed, sample, to, channel]
    hidden = torch.relu(hidden + inner_bias[:, None, None]).reshape(count, samples * POSITIONS, CHANNELS)
    return torch.baddbmm(outer_bias[:, None], hidden, outer.view(count, CHANNELS, CHANNELS)).view(x.shape)


def _dense(x: Tensor, blocks: tuple[Tensor, ...], blueprints: Tensor) -> Tensor:
    """Two matrices over all positions and channels; between them ReLU, or nothing for linear blueprints."""
    inner, inner_bias, outer, outer_bias = blocks
    count, samples = x.shape[:2]
    flat = x.reshape(count, samples, WIDTH)
    hidden = torch.baddbmm(inner_bias[:, None], flat, inner.view(count, WIDTH, HIDDEN))
    slope = tables(x.device)[0].index_select(0, blueprints)[:, None, None]
    hidden = hidden.clamp(min=0) + slope * hidden.clamp(max=0)
    return torch.baddbmm(outer_bias[:, None], hidden, outer.view(count, HIDDEN, WIDTH)).view(x.shape)


def _attention(x: Tensor, blocks: tuple[Tensor, ...], blueprints: Tensor) -> Tensor:
    """One head over the 16 positions, ReLU, and a mix of channels; some blueprints add a table to the scores."""
    inner, table, outer, outer_bias = blocks
    count, samples = x.shape[:2]
    mixed = torch.bmm(x.reshape(count, samples * POSITIONS, CHANNELS), inner.view(count, CHANNELS, 3 * CHANNELS))
    queries, keys, values = torch.split(mixed.view(count * samples, POSITIONS, 3 * CHANNELS), CHANNELS, dim=2)
    scores = torch.bmm(queries, keys.transpose(1, 2)) * CHANNELS**-0.5
    positions = tables(x.device)[1].index_select(0, blueprints)[:, None]
    bias = (table * positions).view(count, 1, POSITIONS, POSITIONS)
    weights = torch.softmax(scores.view(count, samples, POSITIONS, POSITIONS) + bias, dim=3)
    seen = torch.relu(torch.bmm(weights.view(count * samples, POSITIONS, POSITIONS), values))
    seen = seen.view(count, samples * POSITIONS, CHANNELS)
    return torch.baddbmm(outer_bias[:, None], seen, outer.view(count, CHANNELS, CHANNELS)).view(x.shape)


def _norm(x: Tensor, blocks: tuple[Tensor, ...], blueprints: Tensor) -> Tensor:
    """Channels normalised at each position, then scaled and shifted, each position and channel by its own numbers."""
    scale, shift = (block.view(-1, 1, POSITIONS, CHANNELS) for block in blocks)
    return torch.nn.functional.layer_norm(x, (CHANNELS,)) * scale + shift


_FORWARD = {"conv": _conv, "depthwise": _depthwise, "dense": _dense, "attention": _attention, "norm": _norm}


def delta(kernel: Kernel, x: Tensor, row: Tensor, blueprints: Tensor) -> tuple[Tensor, Tensor]:
    """(what the seeds compute, the parameters of their gates [seed, 16]); `row` [seed, number], `blueprints` [seed]."""
    *blocks, gate = torch.split(row, list(layout(kernel).values()), dim=1)
    return _FORWARD[kernel](x, tuple(blocks), blueprints), gate


@lru_cache(maxsize=4)
def tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """By index of blueprint: the slope below 0 of dense seeds, and whether attention has a table of positions."""
    known = [BLUEPRINTS.get(name) for name in NAMES]
    slopes = torch.tensor([float(one is not None and one.linear) for one in known], device=device)
    positions = torch.tensor([float(one is not None and one.positions) for one in known], device=device)
    return slopes, positions


@lru_cache(maxsize=4)
def _spread(device: torch.device) -> Tensor:
    """[blueprint, number]: the standard deviation with which each number of a new seed is drawn; 0 for padding."""
    rows = torch.zeros(len(NAMES), ROW)
    for index, name in enumerate(NAMES):
        if name in BLUEPRINTS:
            rows[index, : row_size(BLUEPRINTS[name].kernel)] = _one_spread(BLUEPRINTS[name])
    return rows.to(device)


def _one_spread(blueprint: Blueprint) -> Tensor:
    blocks = {name: torch.zeros(size) for name, size in layout(blueprint.kernel).items()}
    if blueprint.kernel == "conv":
        blocks["inner"].view(9 * CHANNELS, CHANNELS)[:, : blueprint.size] = (2 / (9 * CHANNELS)) ** 0.5
    elif blueprint.kernel == "depthwise":
        blocks["inner"].fill_((2 / 9) ** 0.5)
    elif blueprint.kernel == "dense":
        blocks["inner"].view(WIDTH, HIDDEN)[:, : blueprint.size] = (2 / WIDTH) ** 0.5
    elif blueprint.kernel == "attention":
        queries, keys, values = blocks["inner"].view(CHANNELS, 3, CHANNELS).unbind(1)
        queries[:, : blueprint.size] = keys[:, : blueprint.size] = CHANNELS**-0.5
        values[:] = (2 / CHANNELS) ** 0.5
    return torch.cat(list(blocks.values()))


def fresh(blueprints: Tensor, generator: torch.Generator) -> Tensor:
    """The parameters of new seeds [seed, number]."""
    drawn = torch.randn(len(blueprints), ROW, generator=generator, device=blueprints.device)
    return drawn * _spread(blueprints.device)[blueprints]

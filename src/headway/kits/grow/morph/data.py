"""What hosts learn: the digits, or labels that a random network gave (a teacher).

    digits()                # 1,797 images in three splits: train, val and test
    teachers(seed=0)        # 64 tasks over the same random images

`Material.test` is read by evaluation alone. Where the digits come from: DIGITS.md beside digits.npz.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import POSITIONS
from headway.nouns import errors

CLASSES = 10
PIXELS = 4  # of a patch
SOURCES = ("digits", "teachers")
_SIZES = {"train": 1097, "val": 200, "test": 500}
_SPLIT_SEED = 20  # of the fixed permutation of the digits
_TASKS = 64
_HIDDEN = 32


@dataclass(frozen=True, slots=True)
class Split:
    """Images [image, position, pixel] and their labels in every task [task, image]."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device) -> Split:
        return Split(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True, slots=True)
class Material:
    """Three splits that share no image. Hosts learn from `train`, rewards come from `val`, evaluation reads `test`."""

    name: str
    train: Split
    val: Split
    test: Split

    @property
    def tasks(self) -> int:
        return len(self.train.labels)

    def to(self, device: torch.device) -> Material:
        return replace(self, train=self.train.to(device), val=self.val.to(device), test=self.test.to(device))


def material(name: str) -> Material:
    """The material of this name."""
    if name not in SOURCES:
        raise errors.InvalidInput(
            f"There is no material {name!r} for hosts to learn.",
            code="unknown_choice",
            hint=f"Use one of {', '.join(SOURCES)}.",
        )
    return digits() if name == "digits" else teachers()


def digits() -> Material:
    """The digits: one task, three splits of a fixed permutation."""
    with np.load(Path(__file__).with_name("digits.npz")) as stored:
        images, labels = stored["images"], stored["labels"]
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
    patches = _patches(torch.from_numpy(images[order].astype(np.float32) / 8 - 1))
    return _split("digits", patches, torch.from_numpy(labels[order].astype(np.int64))[None])


def teachers(seed: int = 0, tasks: int = _TASKS) -> Material:
    """Random images, labelled by random networks with one hidden layer: a task each, with classes of equal size."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(sum(_SIZES.values()), 64, generator=generator)
    inner = torch.randn(tasks, 64, _HIDDEN, generator=generator) / 8
    outer = torch.randn(tasks, _HIDDEN, 1, generator=generator)
    score = (torch.relu(images @ inner) @ outer)[..., 0]  # [task, image]
    ranks = score.argsort(dim=1).argsort(dim=1)
    return _split("teachers", _patches(images), ranks * CLASSES // len(images))


def _patches(images: Tensor) -> Tensor:
    """8×8 images [image, 64] as a 4×4 grid of 2×2 patches [image, position, pixel]."""
    grid = images.view(-1, 4, 2, 4, 2).permute(0, 1, 3, 2, 4)
    return grid.reshape(-1, POSITIONS, PIXELS)


def _split(name: str, images: Tensor, labels: Tensor) -> Material:
    sizes = list(_SIZES.values())
    pairs = zip(torch.split(images, sizes), torch.split(labels, sizes, dim=1), strict=True)
    train, val, test = (Split(some.contiguous(), wanted.contiguous()) for some, wanted in pairs)
    return Material(name, train, val, test)

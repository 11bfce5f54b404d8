"""Sufficient statistics of logged rows, gathered batch by batch in bounded memory.

One pass serves every ridge and every number of clusters: a model of either kind, and its squared error on these rows,
follow from the sums alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.learn.counts import RowCounts
from headway.nouns import Encoder, Experience, Floats
from headway.observe import Batch, PartBlock, blocks_of

_MOST_WEIGHT = 10.0


def blocks(experience: Experience, part: str) -> Iterator[PartBlock]:
    """A part of an experience, block by block; one that is held as records is cut into the same blocks."""
    columns = getattr(experience, "blocks", None)
    return blocks_of(experience.part(part)) if columns is None else columns(part)


def evenly(batch: Batch) -> Floats:
    """The weights of rows in a held-out error, as if every candidate had been tried equally often; at most 10.

    A row with unknown probabilities counts once.
    """
    counts = np.array([len(offered) for offered in batch.offered], dtype=np.float64)
    weight = np.minimum(1.0 / np.maximum(counts * np.maximum(batch.propensity, 1e-12), 1e-300), _MOST_WEIGHT)
    return np.where(batch.known, weight, 1.0)


class Sums:
    """Per arm Σw, Σwr, Σwr², Σwxr, Σwxxᵀ, and the first three per cluster and arm for every clustering."""

    def __init__(self, width: int, centroids: Mapping[int, Floats], *, linear: bool = True) -> None:
        self.width, self.centroids, self.linear = width, centroids, linear
        self.arms: dict[str, int] = {}
        self.moments: list[Floats] = []
        self.targets: list[Floats] = []
        self.totals: list[Floats] = []
        self.per_cluster: dict[int, list[Floats]] = {size: [] for size in centroids}

    def place(self, name: str) -> int:
        place = self.arms.get(name)
        if place is None:
            place = self.arms[name] = len(self.arms)
            self.moments.append(np.zeros((self.width, self.width) if self.linear else (0, 0)))
            self.targets.append(np.zeros(self.width))
            self.totals.append(np.zeros(3))
            for size, table in self.per_cluster.items():
                table.append(np.zeros((size, 3)))
        return place

    def add(self, x: Floats, names: Sequence[str], rewards: Floats, weights: Floats | None = None) -> None:
        """Rows [row, width] with the arm that was chosen and its reward."""
        places = np.array([self.place(name) for name in names])
        nearest = {
            size: (x @ centers.T - 0.5 * (centers * centers).sum(axis=1)).argmax(axis=1)
            for size, centers in self.centroids.items()
        }
        for arm in np.unique(places).tolist():
            mine = places == arm
            part, reward = x[mine], rewards[mine]
            weight = np.ones(len(reward)) if weights is None else weights[mine]
            # Unweighted sums of features are exact; see headway.encode.state.
            weighted = part if weights is None else part * weight[:, None]
            if self.linear:
                self.moments[arm] += part.T @ weighted
            self.targets[arm] += weighted.T @ reward
            columns = np.stack([weight, weight * reward, weight * reward * reward], axis=1)
            self.totals[arm] += columns.sum(axis=0)
            for size, table in self.per_cluster.items():
                np.add.at(table[arm], nearest[size][mine], columns)

    def merge(self, other: Sums) -> None:
        """Add the sums of another block."""
        for name, there in other.arms.items():
            here = self.place(name)
            self.moments[here] += other.moments[there]
            self.targets[here] += other.targets[there]
            self.totals[here] += other.totals[there]
            for size, table in self.per_cluster.items():
                table[here] += other.per_cluster[size][there]

    def packed(self, arms: Sequence[str]) -> Floats:
        """All sums of these arms in one row."""
        places = [self.place(name) for name in arms]
        tables = (self.moments, self.targets, self.totals, *self.per_cluster.values())
        return np.concatenate([np.empty(0), *(table[place].ravel() for place in places for table in tables)])

    def unpack(self, arms: Sequence[str], values: Floats) -> bool:
        """Take the sums that `packed` gave; whether they are as many as they must be."""
        start = 0
        for name in arms:
            place = self.place(name)
            for table in (self.moments, self.targets, self.totals, *self.per_cluster.values()):
                shape, size = table[place].shape, table[place].size
                if start + size > values.size:
                    return False
                table[place] = values[start : start + size].reshape(shape).copy()
                start += size
        return start == values.size

    def ordered(self, arms: Sequence[str]) -> tuple[Floats, Floats, Floats, dict[int, Floats]]:
        """moments, targets, totals and the clusters' totals [cluster, arm, 3], in this order of arms."""
        places = [self.place(name) for name in arms]
        clusters = {
            size: np.stack([table[place] for place in places], axis=1) for size, table in self.per_cluster.items()
        }
        return (
            np.stack([self.moments[place] for place in places]),
            np.stack([self.targets[place] for place in places]),
            np.stack([self.totals[place] for place in places]),
            clusters,
        )


def gather(
    part: Iterable[PartBlock],
    sums: Sums,
    features: Features,
    encoder: Encoder | None,
    *,
    weighted: Sums | None = None,
    counts: RowCounts | None = None,
    done: Callable[[int], None] | None = None,
) -> list[int]:
    """Add all rows to `sums`, and by weight to `weighted`; returns how many each block has.

    Each block is added up by itself, and then the blocks in their order: so what is kept of a block is as good as its
    rows, in every bit.
    """
    sizes: list[int] = []
    both = (sums,) if weighted is None else (sums, weighted)
    about = _about(sums, features, len(both))
    for block in part:
        own = [Sums(one.width, one.centroids, linear=one.linear) for one in both]
        if not _known(own, block, block.kept(about)):
            own = [Sums(one.width, one.centroids, linear=one.linear) for one in both]
            for batch in block.batches():
                _add(own, batch, features.vectors(batch.situations, encoder))
                if done is not None:
                    done(sum(sizes) + block.rewarded)
            block.keep(about, np.concatenate([one.packed(block.actions) for one in own]))
        for one, mine in zip(both, own, strict=True):
            one.merge(mine)
        sizes.append(block.rewarded)
        if counts is not None:
            counts.add(block.counts)
    if done is not None:
        done(sum(sizes))
    return sizes


def _add(own: Sequence[Sums], batch: Batch, x: Floats) -> None:
    # Without weights the sums of features stay exact for longer; see headway.encode.state.
    own[0].add(x, batch.actions, batch.reward, None if (batch.weight == 1.0).all() else batch.weight)
    for weighted in own[1:]:
        weighted.add(x, batch.actions, batch.reward, evenly(batch) * batch.weight)


def _known(own: Sequence[Sums], block: PartBlock, values: Floats | None) -> bool:
    """Take what was kept of a block; whether anything was."""
    if values is None:
        return False
    each = np.split(values, len(own)) if values.size % len(own) == 0 else []
    return len(each) == len(own) and all(one.unpack(block.actions, part) for one, part in zip(own, each, strict=True))


def _about(sums: Sums, features: Features, kinds: int) -> str:
    """What sums of the same rows depend on."""
    centroids = blake2b(b"".join(table.tobytes() for table in sums.centroids.values())).hexdigest()
    return json.dumps([1, kinds, sums.linear, list(sums.centroids), centroids, features.to_json()], sort_keys=True)


def newest(part: Iterable[PartBlock], sizes: Sequence[int], least: int) -> Iterator[Batch]:
    """The newest blocks with at least so many rows between them; `sizes` of all blocks."""
    left = sum(sizes)
    for block, size in zip(part, sizes, strict=True):
        left -= size
        if left < least:
            yield from block.batches()


def kmeans(points: Floats, clusters: int, rng: np.random.Generator, rounds: int = 25) -> Floats:
    """Centroids [cluster, width] by Lloyd's algorithm from k-means++ seeds (Arthur and Vassilvitskii, 2007)."""
    centers = np.empty((clusters, points.shape[1]))
    centers[0] = points[rng.integers(len(points))]
    distance = ((points - centers[0]) ** 2).sum(axis=1)
    for place in range(1, clusters):
        total = float(distance.sum())
        pick = rng.choice(len(points), p=distance / total) if total > 0 else rng.integers(len(points))
        centers[place] = points[pick]
        distance = np.minimum(distance, ((points - centers[place]) ** 2).sum(axis=1))
    nearest: NDArray[np.int64] = np.full(len(points), -1)
    for _ in range(rounds):
        assigned = (points @ centers.T - 0.5 * (centers * centers).sum(axis=1)).argmax(axis=1)
        if (assigned == nearest).all():
            break
        nearest = assigned
        for place in range(clusters):
            mine = points[nearest == place]
            if len(mine):
                centers[place] = mine.mean(axis=0)
    return centers

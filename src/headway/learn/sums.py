"""Sufficient statistics of logged rows, gathered batch by batch in bounded memory.

One pass serves every ridge and every number of clusters: a model of either kind, and its squared error on these rows,
follow from the sums alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.nouns import Encoder, Experience, Floats
from headway.observe import Batch, batches_of

_MOST_WEIGHT = 10.0


def batches(experience: Experience, part: str) -> Iterator[Batch]:
    """A part of an experience as columns; one that is held as records is cut into the same batches."""
    columns = getattr(experience, "batches", None)
    return batches_of(experience.part(part)) if columns is None else columns(part)


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
    rows: Iterable[Batch],
    sums: Sums,
    features: Features,
    encoder: Encoder | None,
    *,
    weighted: Sums | None = None,
    done: Callable[[int], None] | None = None,
) -> int:
    """Add all batches to `sums`, and by weight to `weighted`; returns the number of rows."""
    count = 0
    for batch in rows:
        if not len(batch):
            continue
        x = features.vectors(batch.situations, encoder)
        # Without weights the sums of features stay exact for longer; see headway.encode.state.
        sums.add(x, batch.actions, batch.reward, None if (batch.weight == 1.0).all() else batch.weight)
        if weighted is not None:
            weighted.add(x, batch.actions, batch.reward, evenly(batch) * batch.weight)
        count += len(batch)
        if done is not None:
            done(count)
    return count


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

"""Compares ways of growing on the same held-out hosts: means, 95% intervals, and differences paired by host.

    compared({"learned": [chooser, …]}, seed=2000, hosts=64)

All ways play the same hosts with the same minibatches. A way may have several policies (seeds of training); its mean is
over policies and hosts, and the bootstrap draws both anew, so an interval also covers another training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.morph.baselines import BASELINES, Chooser
from headway.kits.grow.morph.evaluate import EpisodeTable, played
from headway.kits.grow.shown import GrowWay
from headway.nouns import Progress

AGAINST = ("plateau", "fixed schedule", "best schedule", "static-all", "random-valid", "wait-only")
_DRAWS = 4000
_POINTS = ("net", "test_accuracy", "rent", "costs", "parameters", "fossilised", "waits", "stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class WayResult:
    """One way of growing: means over policies and hosts, and the 95% interval of `net`."""

    way: str
    policies: int
    net: float
    low: float
    high: float
    test_accuracy: float
    rent: float
    parameters: float
    fossilised: float
    waits: float
    stopped: float
    ops: tuple[float, ...]  # per episode
    blueprints: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WayComparison:
    """Ways on the same hosts; `differences`: of the first way from every other, (mean, low, high)."""

    seed: int
    hosts: int
    source: str
    ways: tuple[WayResult, ...]
    differences: Mapping[str, tuple[float, float, float]]

    @property
    def ratio(self) -> float:
        """Net accuracy of the first way over that of the plateau heuristic."""
        nets = {row.way: row.net for row in self.ways}
        return nets[self.ways[0].way] / nets["plateau"]

    def shown(self) -> list[GrowWay]:
        """The ways as the page shows them."""
        told = []
        for row in self.ways:
            behind, low, high = self.differences.get(row.way, (0.0, 0.0, 0.0))
            told.append(
                GrowWay(
                    way=row.way, policies=row.policies, net=row.net, low=row.low, high=row.high,
                    test_accuracy=row.test_accuracy, rent=row.rent, parameters=row.parameters,
                    behind=behind, behind_low=low, behind_high=high,
                )
            )  # fmt: skip
        return told


def compared(
    ways: Mapping[str, Sequence[Callable[[], Chooser]]],
    *,
    seed: int,
    hosts: int,
    baselines: Iterable[str] = AGAINST,
    device: str = "cpu",
    source: str = "digits",
    progress: Progress | None = None,
    **settings: Any,
) -> WayComparison:
    """Play every way and baseline. A chooser with a memory serves one play, so `ways` has functions that make one."""
    plans: dict[str, Sequence[Callable[[], Chooser]]] = {
        **ways,
        **{name: [partial(BASELINES[name], seed)] for name in baselines},
    }
    tables: dict[str, list[EpisodeTable]] = {}
    total, done = sum(len(makers) for makers in plans.values()), 0
    for way, makers in plans.items():
        for make in makers:
            table = played(make(), seed=seed, count=hosts, device=device, source=source, **settings)
            tables.setdefault(way, []).append(table)
            done += 1
            if progress is not None:
                progress("plays", done, total)
    return summarised(tables, seed=seed, source=source)


def summarised(tables: Mapping[str, Sequence[EpisodeTable]], *, seed: int, source: str = "digits") -> WayComparison:
    """Means, intervals and paired differences of what was played."""
    rows, nets = [], {}
    for way, plays in tables.items():
        nets[way] = np.stack([play.net for play in plays])  # [policy, host]
        low, high = _interval(nets[way], seed)
        means = {name: float(np.mean([play.columns[name].mean() for play in plays])) for name in _POINTS}
        hosts = nets[way].shape[1]
        rows.append(
            WayResult(
                way=way,
                policies=len(plays),
                low=low,
                high=high,
                ops=tuple(np.mean([play.ops for play in plays], axis=0) / hosts),
                blueprints=tuple(np.mean([play.blueprints for play in plays], axis=0) / hosts),
                **{name: value for name, value in means.items() if name != "costs"},
            )
        )
    first = rows[0].way
    differences = {}
    for way, values in nets.items():
        if way != first:
            apart = nets[first] - values.mean(axis=0)  # paired by host
            differences[way] = (float(apart.mean()), *_interval(apart, seed))
    return WayComparison(seed=seed, hosts=hosts, source=source, ways=tuple(rows), differences=differences)


def _interval(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """95% interval of the mean of [policy, host] by a bootstrap of policies and hosts."""
    rng = np.random.default_rng([seed, 0x601])
    policies, hosts = values.shape
    means = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        rows, columns = rng.integers(policies, size=policies), rng.integers(hosts, size=hosts)
        means[draw] = values[rows][:, columns].mean()
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)

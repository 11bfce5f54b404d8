"""Several ways of choosing that played the same subjects: means, intervals, and each beside a best one.

    played_summary([{"part": "test", "way": "learned", "subject": "graphs-12", "value": 0.8, …}, …], seed=0)

A row is one way on one subject, averaged over its repetitions, with `value`, `solved` and `cost`. The unit of every
interval is the subject. Shares of the best way and differences are paired: both ways on the same resampled subjects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.prove import bootstrap

BEST, OURS = "oracle", "learned"  # what shares are of, and what is compared with the others
_RESAMPLES = 2_000
Floats = NDArray[np.float64]


def played_summary(rows: Iterable[Mapping[str, Any]], *, seed: int) -> dict[str, Any]:
    """part → way → mean value, its interval, its share of the best way's, solved, cost, and what `learned` has more."""
    parts: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in rows:
        ways = parts.setdefault(str(row["part"]), {})
        values = ways.setdefault(str(row["way"]), {}).setdefault(str(row["subject"]), [])
        values[:] = [float(row["value"]), float(row["solved"]), float(row["cost"])]
    return {part: _part(ways, seed) for part, ways in sorted(parts.items())}


def _part(ways: Mapping[str, Mapping[str, list[float]]], seed: int) -> dict[str, Any]:
    subjects = sorted(set.intersection(*(set(way) for way in ways.values())))
    tables = {name: np.array([way[subject] for subject in subjects]) for name, way in ways.items()}
    result: dict[str, Any] = {"subjects": len(subjects), "ways": {}}
    for name, table in tables.items():
        low, high = bootstrap(table[:, 0], seed=seed)
        entry = {
            "value": float(table[:, 0].mean()), "low": low, "high": high,
            "solved": float(table[:, 1].mean()), "cost": float(table[:, 2].mean()),
        }  # fmt: skip
        if BEST in tables:
            entry["share"], entry["share_low"], entry["share_high"] = _share(table[:, 0], tables[BEST][:, 0], seed)
        if OURS in tables and name != OURS:
            more = tables[OURS][:, 0] - table[:, 0]
            least, most = bootstrap(more, seed=seed)
            entry["learned_more"], entry["learned_more_low"], entry["learned_more_high"] = (
                float(more.mean()),
                least,
                most,
            )
        result["ways"][name] = entry
    return result


def _share(values: Floats, best: Floats, seed: int) -> tuple[float, float, float]:
    """The share of the best way's mean, with its 95% interval over resampled subjects."""
    rng = np.random.default_rng([seed, 0x5A])
    weights = rng.multinomial(len(values), np.full(len(values), 1.0 / len(values)), size=_RESAMPLES).astype(np.float64)
    shares = (weights @ values) / (weights @ best)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(values.mean() / best.mean()), float(low), float(high)

"""A summary of the latest decisions of a task for charts: reward over time, by action and by policy.

Buckets hold equal numbers of decisions, not equal times, so that bursts and quiet periods both show well.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headway.nouns import Internal, Time, served
from headway.observe.database import Database
from headway.observe.query import Query
from headway.observe.rows import REQUESTS
from headway.observe.totals import daily_totals
from headway.observe.units import has_units

_SMALLEST = 20  # decisions per bucket; fewer would show noise
_WINDOW = f"(SELECT * FROM decisions d WHERE task_id = ? AND {REQUESTS} ORDER BY seq DESC LIMIT ?) d"
_LIVE = "NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)"


@dataclass(slots=True)
class RunningMean:
    """The mean of n values with its normal 95% interval; null without values."""

    n: int = 0
    total: Internal[float] = 0.0
    squares: Internal[float] = 0.0
    within: Internal[tuple[float, float] | None] = None  # the range of the values: no interval leaves it

    def add(self, value: float) -> None:
        self.n += 1
        self.total += value
        self.squares += value * value

    @served
    def value(self) -> float | None:
        return self.total / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.n < 2:
            return None
        mean = self.total / self.n
        spread = max(0.0, self.squares / self.n - mean * mean) * self.n / (self.n - 1)
        half = 1.96 * math.sqrt(spread / self.n)
        lowest, highest = self.within or (-math.inf, math.inf)
        return max(mean - half, min(mean, lowest)), min(mean + half, max(mean, highest))

    @served
    def low(self) -> float | None:
        return None if self.interval is None else self.interval[0]

    @served
    def high(self) -> float | None:
        return None if self.interval is None else self.interval[1]


@dataclass(slots=True)
class Part:
    """One action or policy: its count, mean reward and signals."""

    name: str
    decisions: int = 0
    share: float = 0.0  # of the window
    reward: RunningMean = field(default_factory=RunningMean)
    signals: dict[str, RunningMean] = field(default_factory=dict)


@dataclass(slots=True)
class Bucket:
    """Consecutive decisions up to number `upto`; `explored` is the probability of all but the most likely action."""

    upto: int
    at: Time
    policy: str
    decisions: int = 0
    reward: RunningMean = field(default_factory=RunningMean)
    away: Internal[float] = 0.0  # summed probability outside the most likely action

    @served
    def explored(self) -> float:
        return self.away / self.decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    task: str
    decisions: int  # of the task, in total
    window: int  # the latest ones, which the summary covers
    trend: list[Bucket]
    actions: list[Part]
    policies: list[Part]
    signals: list[str]


def recent(
    database: Database,
    query: Query,
    task: str,
    *,
    window: int,
    points: int,
    reward_range: tuple[float, float] | None = None,
) -> Recent:
    """Summarise the last `window` decisions, with the trend in at most `points` buckets."""
    task_id = query.name_id("task", task)
    values = (task_id, window)
    total = sum(day.decisions for day in daily_totals(database, task_id))
    rows = database.query(
        "SELECT d.at, d.candidate_set_id, d.probabilities, d.action, COALESCE(a.name, p.ref), p.ref, s.reward "
        f"FROM {_WINDOW} JOIN policies p ON p.id = d.policy_id "
        f"LEFT JOIN names a ON a.id = d.assigned_id LEFT JOIN settled s ON s.decision = d.seq AND {_LIVE} "
        "ORDER BY d.seq",
        values,
    )
    names = query.frame(task).sets([row[1] for row in rows])
    size = max(_SMALLEST, math.ceil(len(rows) / points))
    early = -len(rows) % size  # only the oldest bucket may be partly filled
    trend: list[Bucket] = []
    actions: dict[str, Part] = {}
    policies: dict[str, Part] = {}
    for place, (at, candidates, blob, action, policy, ref, reward) in enumerate(rows):
        if not trend or (place + early) % size == 0:
            trend.append(Bucket(0, 0.0, ""))
        bucket = trend[-1]
        bucket.upto, bucket.at, bucket.policy = total - len(rows) + place + 1, at / 1e6, ref
        bucket.decisions += 1
        if blob:  # empty: imported without probabilities
            bucket.away += 1.0 - max(struct.unpack(f"<{len(blob) // 8}d", blob))
        name = names[candidates][action]
        parts = (actions.setdefault(name, Part(name)), policies.setdefault(policy, Part(policy)))
        for part in parts:
            part.decisions += 1
        if reward is not None:
            for mean in (bucket.reward, *(part.reward for part in parts)):
                mean.add(reward)
    signals = _add_signals(database, query, values, names, actions, policies)
    if len(trend) > 1 and trend[0].decisions < _SMALLEST:
        del trend[0]  # too few to show
    covered = min(total, window)
    means = [bucket.reward for bucket in trend] + [part.reward for part in (*actions.values(), *policies.values())]
    for mean in means:
        mean.within = reward_range
    return Recent(
        task=task,
        decisions=total,
        window=covered,
        trend=trend,
        actions=_largest(actions.values(), covered),
        policies=_largest(policies.values(), covered),
        signals=signals,
    )


def _add_signals(
    database: Database,
    query: Query,
    values: tuple[int, int],
    names: Mapping[int, Sequence[str]],
    actions: dict[str, Part],
    policies: dict[str, Part],
) -> list[str]:
    """Add the live signals, those of a request with all its attempts; a decision made since is left out."""
    retried = "EXISTS (SELECT 1 FROM decisions f WHERE f.unit = d.id)" if has_units(database) else "1 = 0"
    requests = database.query(
        f"SELECT d.id, d.candidate_set_id, d.action, COALESCE(a.name, p.ref) FROM {_WINDOW} "
        f"JOIN policies p ON p.id = d.policy_id LEFT JOIN names a ON a.id = d.assigned_id WHERE {retried}",
        values,
    )
    whole = query.values([bytes(row[0]) for row in requests])
    rows = [
        (candidates, action, policy, name, 1, value, value * value)
        for raw, candidates, action, policy in requests
        for name, value in whole.get(bytes(raw), {}).items()
    ]
    rows += database.query(
        "SELECT m.candidate_set_id, m.action, COALESCE(a.name, p.ref), n.name, m.n, m.total, m.squares FROM ("
        "SELECT d.candidate_set_id, d.action, d.policy_id, d.assigned_id, g.name_id, "
        "COUNT(*) AS n, SUM(g.value) AS total, SUM(g.value * g.value) AS squares "
        f"FROM {_WINDOW} CROSS JOIN signals g "
        f"WHERE g.subject = d.id AND g.withdrawn_by IS NULL AND g.value IS NOT NULL AND NOT {retried} "
        "GROUP BY d.candidate_set_id, d.action, d.policy_id, d.assigned_id, g.name_id) m "
        "JOIN names n ON n.id = m.name_id JOIN policies p ON p.id = m.policy_id "
        "LEFT JOIN names a ON a.id = m.assigned_id",
        values,
    )
    for candidates, action, policy, name, count, total, squares in rows:
        if candidates not in names or names[candidates][action] not in actions or policy not in policies:
            continue
        for part in (actions[names[candidates][action]], policies[policy]):
            mean = part.signals.setdefault(name, RunningMean())
            mean.n += count
            mean.total += total
            mean.squares += squares
    return sorted({row[3] for row in rows})


def _largest(parts: Collection[Part], window: int) -> list[Part]:
    for part in parts:
        part.share = part.decisions / window
    return sorted(parts, key=lambda part: (-part.decisions, part.name))

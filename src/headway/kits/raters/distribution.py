"""The distribution of rewards by role, source, action and rater, and the share of decisions without one.

rewards = distribution(database, query, "route", low=-1.0, high=1.0)
rewards.groups["action"]["small"].mean
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.nouns import SOURCES
from headway.observe import LEADS, STATUSES, Database, Query, decode_candidates

BINS = 40
_LIVE = "NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)"


@dataclass(slots=True, kw_only=True)
class Spread:
    """One group: the number of decisions, their outcomes, and the moments and histogram of their rewards."""

    decisions: int = 0
    pending: int = 0
    rewarded: int = 0
    failed: int = 0
    censored: int = 0
    clipped: int = 0
    n: int = 0  # rewards, including those of failed and censored decisions if the task counts them
    total: float = 0.0
    square: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    bins: list[int] = field(default_factory=lambda: [0] * BINS)

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None

    @property
    def std(self) -> float | None:
        if self.n < 2:
            return None
        return float(max(0.0, (self.square - self.total**2 / self.n) / (self.n - 1)) ** 0.5)

    @property
    def failed_share(self) -> float:
        return self.failed / self.decisions if self.decisions else 0.0

    @property
    def missing_share(self) -> float:
        """The share of decisions without a signal: still pending, or censored."""
        return (self.pending + self.censored) / self.decisions if self.decisions else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """All decisions of a task that made their own draw; `raters` describes signals, by (rater, signal).

    Mined labels appear only in the group of their source: they are never mixed with measured ones.
    """

    whole: Spread
    groups: Mapping[str, Mapping[str, Spread]]  # "role", "source", "action" → name → spread
    raters: Mapping[tuple[str, str], Spread]
    edges: tuple[float, ...]  # BINS + 1 edges of the bins


def distribution(database: Database, query: Query, task: str, *, low: float, high: float) -> Distribution:
    """The current rewards of a task, and the signals behind them by rater."""
    task_id = query.name_id("task", task)
    whole = Spread()
    groups: dict[str, dict[str, Spread]] = {"role": {}, "source": {}, "action": {}}
    width = (high - low) / BINS
    for role, source, body, action, status, bin_, count, rewards, total, square, least, most, clipped in database.query(
        "SELECT r.name, d.source, c.body, d.action, COALESCE(s.status, 0), "
        # a bin of the range [low, high]; the highest reward belongs to the last bin
        f"CASE WHEN s.reward IS NULL THEN NULL ELSE {database.whole('(s.reward - ?) / ?')} END AS bin, "
        "COUNT(*), COUNT(s.reward), SUM(s.reward), SUM(s.reward * s.reward), MIN(s.reward), MAX(s.reward), "
        "SUM(COALESCE(s.clipped, 0)) "
        "FROM decisions d JOIN names r ON r.id = d.role_id JOIN candidate_sets c ON c.id = d.candidate_set_id "
        f"LEFT JOIN settled s ON s.decision = d.seq AND {_LIVE} WHERE d.task_id = ? AND {LEADS} "
        "GROUP BY r.id, d.source, c.id, d.action, COALESCE(s.status, 0), bin",
        (low, width, task_id),
    ):
        keys = {"role": role or "none", "source": SOURCES[source], "action": decode_candidates(body)[action].name}
        if SOURCES[source] == "mined":  # weak labels count only in the group of their source
            del keys["role"], keys["action"]
        spreads = [groups[kind].setdefault(name, Spread()) for kind, name in keys.items()]
        for spread in (*spreads, *([] if SOURCES[source] == "mined" else [whole])):
            spread.decisions += count
            name = STATUSES[status]
            setattr(spread, name, getattr(spread, name) + count)
            spread.clipped += int(clipped)
            if rewards:
                spread.n += rewards
                spread.total += total
                spread.square += square
                spread.low, spread.high = min(spread.low, least), max(spread.high, most)
                spread.bins[min(BINS - 1, max(0, bin_))] += rewards
    return Distribution(
        whole=whole,
        groups={kind: dict(sorted(spreads.items())) for kind, spreads in groups.items()},
        raters=_raters(database, task_id),
        edges=tuple(low + width * place for place in range(BINS + 1)),
    )


def _raters(database: Database, task_id: int) -> dict[tuple[str, str], Spread]:
    """Live signals on decisions of the task, by who gave them."""
    spreads: dict[tuple[str, str], Spread] = {}
    for rater, name, count, total, square, least, most in database.query(
        "SELECT r.name, n.name, COUNT(*), SUM(g.value), SUM(g.value * g.value), MIN(g.value), MAX(g.value) "
        "FROM signals g JOIN decisions d ON d.id = g.subject JOIN names n ON n.id = g.name_id "
        "JOIN names r ON r.id = g.rater_id WHERE d.task_id = ? AND g.withdrawn_by IS NULL AND g.value IS NOT NULL "
        "GROUP BY r.id, n.id ORDER BY r.name, n.name",
        (task_id,),
    ):
        spreads[rater or "unnamed", name] = Spread(n=count, total=total, square=square, low=least, high=most)
    return spreads

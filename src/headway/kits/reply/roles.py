"""How the replies of each role went: reward, length and time, in total and over time.

for role in roles(project): role.task, role.tokens, role.latency_s, role.trend
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from headway.kits.reply.kept import KeptReply, with_replies
from headway.nouns.wire import Time

if TYPE_CHECKING:
    from headway.nouns.records import Settled
    from headway.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """Consecutive replies of a role: means of their reward, tokens and seconds."""

    wire_name = "RolePoint"
    at: Time  # when the last one was written
    replies: int
    reward: float | None
    tokens: float | None
    latency_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatistics:
    """A reply task: its latest replies as a whole and over time, the oldest first."""

    wire_name = "RoleAnswer"
    task: str
    current: str
    replies: int
    rated: int
    whole: TrendPoint | None  # of all these replies; None: there are none
    trend: tuple[TrendPoint, ...]  # oldest first


def roles(project: Project, *, window: int = 500, points: int = 30) -> list[RoleStatistics]:
    """Every reply task, by its latest `window` replies in at most `points` equal parts."""
    return [
        _role(project, task.name, window, points) for task in project.settings.tasks.values() if task.kind == "reply"
    ]


def _role(project: Project, task: str, window: int, points: int) -> RoleStatistics:
    project.settle(task)
    latest = sorted(decision.seq for decision in project.query.latest(task, window))
    rows = list(with_replies(project, project.query.outcomes(latest)))
    size = max(1, -(-len(rows) // points))
    return RoleStatistics(
        task=task,
        current=project.current(task).ref,
        replies=len(rows),
        rated=sum(row.reward is not None for row, _ in rows),
        whole=_point(rows) if rows else None,
        trend=tuple(_point(rows[start : start + size]) for start in range(0, len(rows), size)),
    )


def _point(rows: Sequence[tuple[Settled, KeptReply]]) -> TrendPoint:
    return TrendPoint(
        at=rows[-1][0].decision.at,
        replies=len(rows),
        reward=_mean([row.reward for row, _ in rows if row.reward is not None]),
        tokens=_mean([len(reply.tokens) for _, reply in rows if reply.tokens]),
        latency_s=_mean([reply.latency_s for _, reply in rows]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None

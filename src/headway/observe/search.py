"""Find decisions by text, action, policy, outcome and time, newest first, in pages.

    page = find_decisions(database, DecisionFilter(task="route", text="refund", status="failed"), limit=50)
    find_decisions(database, wanted, before=page.next, limit=50)        # the next page; None: there are no more

One call looks at a bounded number of rows, however long the log is: a page may hold fewer than `limit` decisions and
still have a next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headway.nouns import SOURCES, Decision, Outcome
from headway.observe.database import Database, Row, chunks, placeholders
from headway.observe.rows import (
    DECISION_COLUMNS,
    DECISION_TABLES,
    LEADS,
    STATUSES,
    decision_from_row,
    decode_candidates,
    microseconds,
)

_LIVE = "NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)"
_STEP = 20_000  # rows that one statement looks at
_MOST = 200_000  # and one call
_LAST = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Every condition that is given must hold."""

    task: str | None = None
    text: str | None = None  # a part of the text, in any case
    action: str | None = None
    policy: str | None = None  # a reference, such as bandit@4f2a
    status: str | None = None  # pending, rewarded, failed or censored
    reward_from: float | None = None
    reward_to: float | None = None
    since: float | None = None  # made at this time or later
    until: float | None = None  # made before this time
    role: str | None = None
    source: str | None = None

    @property
    def empty(self) -> bool:
        """Whether every decision of the task matches."""
        values = (self.text, self.action, self.policy, self.status, self.reward_from, self.reward_to)
        return all(value is None for value in (*values, self.since, self.until, self.role, self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPage:
    decisions: list[tuple[Decision, Outcome]]
    next: int | None  # `before` of the next page
    looked: int  # rows of the store that were looked at


def find_decisions(
    database: Database, wanted: DecisionFilter, *, before: int | None = None, limit: int = 50, attempts: bool = True
) -> DecisionPage:
    """The newest matching decisions before a row of the store, each with its present outcome.

    Without `attempts`, a request is its first decision.
    """
    where, values = _conditions(wanted)
    if not attempts:
        where += " AND (d.unit IS NULL OR d.unit = d.episode)"
    last = database.query("SELECT MAX(seq) FROM decisions")[0][0] or 0
    high = end = min(_LAST if before is None else before, last + 1)
    seqs: list[int] = []
    while high > 1 and len(seqs) <= limit and end - high < _MOST:
        # Without conditions every row of the task matches: an index finds them, in however wide a range.
        low = 0 if wanted.empty else max(0, high - _STEP)
        rows = database.query(
            "SELECT d.seq, d.candidate_set_id, d.action FROM decisions d "
            f"LEFT JOIN settled s ON s.decision = d.seq AND {_LIVE} "
            f"WHERE d.seq >= ? AND d.seq < ?{where} ORDER BY d.seq DESC LIMIT ?",
            (low, high, *values, limit + 1 - len(seqs) if wanted.action is None else _STEP),
        )
        seqs += [row[0] for row in rows] if wanted.action is None else _chosen(database, rows, wanted.action)
        high = low
    more = len(seqs) > limit
    seqs = seqs[:limit]
    if more:
        following: int | None = seqs[-1]
    else:
        following = high if high > 1 else None
    return DecisionPage(
        decisions=_read(database, seqs), next=following, looked=end - (seqs[-1] if more else max(high, 1))
    )


def stored_rows(
    database: Database, columns: str, wanted: DecisionFilter, *, tasks: Sequence[str], upto: int, size: int
) -> Iterator[list[Row]]:
    """Columns of decisions `d` and their present outcomes `s`, after the number: of these tasks, in bounded memory."""
    where, values = _conditions(wanted)
    if tasks:
        # the +: without it, SQLite sorts the rest of the store for each page
        where += f" AND +d.task_id IN (SELECT id FROM names WHERE kind = 'task' AND name IN ({placeholders(tasks)}))"
    sql = f"SELECT d.seq, {columns} FROM decisions d LEFT JOIN settled s ON s.decision = d.seq AND {_LIVE} "
    sql += f"WHERE d.seq <= ?{where} AND d.seq > ? ORDER BY d.seq LIMIT ?"
    return database.pages(sql, (upto, *values, *tasks), after=0, size=size)


def all_decisions(database: Database, wanted: DecisionFilter) -> Iterator[tuple[Decision, Outcome]]:
    """All matching decisions with their outcomes, newest first, read page by page."""
    before: int | None = None
    while True:
        page = find_decisions(database, wanted, before=before, limit=200)
        yield from page.decisions
        if page.next is None:
            return
        before = page.next


def _conditions(wanted: DecisionFilter) -> tuple[str, list[Any]]:
    where = ""
    values: list[Any] = []

    def add(condition: str, *bound: Any) -> None:
        nonlocal where
        where += f" AND {condition}"
        values.extend(bound)

    if wanted.task is not None:
        add("d.task_id = (SELECT id FROM names WHERE kind = 'task' AND name = ?)", wanted.task)
    if wanted.text is not None:
        escaped = wanted.text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        add("LOWER(d.text) LIKE ? ESCAPE '\\'", f"%{escaped}%")
    if wanted.policy is not None:
        add("d.policy_id IN (SELECT id FROM policies WHERE ref = ?)", wanted.policy)
    if wanted.status == "pending":
        add(f"(s.seq IS NULL OR s.status = {STATUSES.index('pending')}) AND {LEADS}")
    elif wanted.status is not None:
        add("s.status = ?", STATUSES.index(wanted.status))
    for condition, bound in (("s.reward >= ?", wanted.reward_from), ("s.reward <= ?", wanted.reward_to)):
        if bound is not None:
            add(condition, bound)
    if wanted.role is not None:
        add("d.role_id = (SELECT id FROM names WHERE kind = 'role' AND name = ?)", wanted.role)
    if wanted.source is not None:
        add("d.source = ?", SOURCES.index(wanted.source))
    for condition, at in (("d.at >= ?", wanted.since), ("d.at < ?", wanted.until)):
        if at is not None:
            add(condition, microseconds(at))
    return where, values


def _chosen(database: Database, rows: list[Any], action: str) -> list[int]:
    """The rows whose action has this name; an action is stored as a place in its candidate set."""
    places: dict[int, set[int]] = {}
    for chunk in chunks(sorted({row[1] for row in rows})):
        for identifier, body in database.query(
            f"SELECT id, body FROM candidate_sets WHERE id IN ({placeholders(chunk)})", chunk
        ):
            names = [candidate.name for candidate in decode_candidates(body)]
            places[identifier] = {place for place, name in enumerate(names) if name == action}
    return [seq for seq, candidates, place in rows if place in places.get(candidates, ())]


def _read(database: Database, seqs: list[int]) -> list[tuple[Decision, Outcome]]:
    """The decisions with these numbers and their outcomes, newest first."""
    found: list[tuple[Decision, Outcome]] = []
    for chunk in chunks(seqs):
        marks = placeholders(chunk)
        outcomes = {
            decision: Outcome(status=STATUSES[status], reward=reward, clipped=bool(clipped))
            for decision, status, reward, clipped in database.query(
                f"SELECT s.decision, s.status, s.reward, s.clipped FROM settled s "
                f"WHERE s.decision IN ({marks}) AND {_LIVE}",
                chunk,
            )
        }
        pending = Outcome(status="pending", reward=None)
        found += [
            (decision, outcomes.get(decision.seq, pending))
            for decision in map(
                decision_from_row,
                database.query(
                    f"SELECT {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE d.seq IN ({marks}) ORDER BY d.seq DESC",
                    chunk,
                ),
            )
        ]
    return found

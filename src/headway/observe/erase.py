"""Delete decisions by age, episode or id, or the signals of one rater, with everything that depends on them.

    wanted = DeletionFilter(before=now - 90 * 86_400)        # or episode="chat-7", rater="ann", decision="dec_…"
    matched = plan_deletion(database, wanted)                # what would be deleted; changes nothing
    with database.transaction() as connection:
        erase(connection, wanted, matched)                   # all or nothing

Deleting a decision deletes its signals, outcomes, details and provenance and, if nothing else uses them, its candidate
set, its configuration, its episode with the episode's signals, and the names of its role, key, signals and raters.
Decisions that repeat a deleted draw stay without an outcome. Draws that lose some of their signals lose their outcome
too, but for the number of its first row: a policy that was trained on them has read them. The settling marks move back
before those signals, so that the draws settle again, even after a crash in between.

Not covered: exports, backups and learned policies (`project.erase` lists the bundles). For evidence and the ledger, see
`erased_words`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.nouns import Settled, errors, ids
from headway.observe.database import Connection, Database, chunks, placeholders
from headway.observe.deleted import count_deleted, forget_deleted
from headway.observe.rows import SETTLED_COLUMNS, SETTLED_TABLES, microseconds, settled_from_row
from headway.observe.totals import forget_blocks, forget_totals

_ERASED = "erased"  # the mark, under task 0, that counts deletions: caches of ids check it
DELETIONS = "SELECT COALESCE(MAX(value), 0) FROM marks WHERE task_id = 0 AND name = 'erased'"
_HARMLESS_JOBS = ("learn", "cycle")  # they hold names of tasks and policies, and no texts


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFilter:
    """Which rows to delete: exactly one of the first four fields, in one task or in all."""

    before: float | None = None  # decisions made earlier than this
    episode: str | None = None
    rater: str | None = None
    decision: str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.before, self.episode, self.rater, self.decision) if value is not None]
        if len(given) != 1:
            raise errors.InvalidInput(
                f"The deletion has {len(given)} conditions, expected one.",
                code="bad_deletion",
                hint="Pass one of before, episode, rater or decision.",
            )


@dataclass(slots=True)
class MatchedRows:
    """The rows that a deletion removes, counted; `survivors` are draws that stay but lose some of their signals."""

    decisions: int = 0
    signals: int = 0
    episodes: int = 0
    outcomes: int = 0
    experiences: int = 0
    where: str = "1 = 0"  # SQL condition of the matching decisions
    values: tuple[Any, ...] = ()
    rater_id: int = 0
    task_id: int = 0  # 0: all
    survivors: list[int] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)  # that lose rows

    @property
    def nothing(self) -> bool:
        return not (self.decisions or self.signals or self.experiences)


def plan_deletion(database: Database, wanted: DeletionFilter) -> MatchedRows:
    """Find what would be deleted. Changes nothing."""
    query = database.query
    matched = MatchedRows()
    if wanted.task is not None:
        matched.task_id = _name_id(database, "task", wanted.task)
        if not matched.task_id:
            raise errors.UnknownName(f"Nothing was recorded for the task {wanted.task!r}.", code="unknown_task")
    if wanted.rater is not None:
        _match_rater(database, wanted.rater, matched)
        return matched
    matched.where, matched.values = _where(database, wanted)
    if matched.task_id:
        matched.where, matched.values = f"({matched.where}) AND task_id = ?", (*matched.values, matched.task_id)
    matching = f"FROM decisions WHERE {matched.where}"
    matched.decisions = _count(database, matching, matched.values)
    matched.signals = _count(database, f"FROM signals WHERE subject IN (SELECT id {matching})", matched.values)
    for sql, values in _other_signals(wanted, matched):
        matched.signals += _count(database, f"FROM signals WHERE {sql}", values)
    matched.outcomes = _count(database, f"FROM settled WHERE decision IN (SELECT seq {matching})", matched.values)
    matched.episodes = _count(
        database,
        f"FROM (SELECT DISTINCT episode {matching} AND episode IS NOT NULL) AS touched "
        f"WHERE NOT EXISTS (SELECT 1 FROM decisions o WHERE o.episode = touched.episode "
        f"AND o.seq NOT IN (SELECT seq {matching}))",
        (*matched.values, *matched.values),
    )
    if wanted.before is not None:
        sql, values = _steps(wanted.before, matched)
        matched.experiences = _count(database, f"FROM experiences WHERE {sql}", values)
    matched.survivors = [
        int(row[0])
        for row in query(
            f"SELECT DISTINCT r.seq FROM decisions r WHERE r.draw IS NULL AND r.id IN (SELECT draw {matching}) "
            f"AND r.seq NOT IN (SELECT seq {matching})",
            (*matched.values, *matched.values),
        )
    ]
    matched.tasks = [
        row[0]
        for row in query(
            f"SELECT name FROM names WHERE id IN (SELECT DISTINCT task_id {matching}) ORDER BY name", matched.values
        )
    ]
    return matched


def extent(database: Database) -> tuple[int, float]:
    """The number of decisions, and the time of the latest one."""
    count, latest = database.query("SELECT COUNT(*), MAX(at) FROM decisions")[0]
    return int(count), (latest or 0) / 1e6


def _count(database: Database, matching: str, values: tuple[Any, ...]) -> int:
    return int(database.query(f"SELECT COUNT(*) {matching}", values)[0][0])


def _where(database: Database, wanted: DeletionFilter) -> tuple[str, tuple[Any, ...]]:
    if wanted.before is not None:
        return "at < ?", (microseconds(wanted.before),)
    if wanted.decision is not None:
        raw = ids.raw(wanted.decision)
        if not database.query("SELECT 1 FROM decisions WHERE id = ?", (raw,)):
            raise errors.UnknownName(
                f"There is no decision {wanted.decision!r}.",
                code="unknown_decision",
                hint="`headway data log` lists the latest ones.",
            )
        return "id = ?", (raw,)
    rows = database.query("SELECT id FROM episodes WHERE name = ?", (wanted.episode,))
    if not rows:
        raise errors.UnknownName(
            f"There is no episode {wanted.episode!r}.",
            code="unknown_episode",
            hint="Use the name that was passed with the episode's first decision.",
        )
    return f"episode IN ({placeholders(rows)})", tuple(bytes(row[0]) for row in rows)


def _other_signals(wanted: DeletionFilter, matched: MatchedRows) -> list[tuple[str, tuple[Any, ...]]]:
    """Conditions on signals without a matching decision: early signals, and those of an episode."""
    if wanted.before is not None and not matched.task_id:
        no_subject = (
            "NOT EXISTS (SELECT 1 FROM decisions d WHERE d.id = signals.subject) "
            "AND NOT EXISTS (SELECT 1 FROM episodes e WHERE e.id = signals.subject)"
        )
        return [(f"at < ? AND {no_subject}", (microseconds(wanted.before),))]
    if wanted.episode is not None:
        if wanted.task is not None:
            return [("subject = ?", (ids.raw(ids.episode(wanted.task, wanted.episode)),))]
        return [(f"subject IN ({', '.join('?' * len(matched.values))})", matched.values)]
    return []


def _steps(before: float, matched: MatchedRows) -> tuple[str, tuple[int, ...]]:
    """The condition on steps of the prompt-mutation endpoints, which can only be selected by age."""
    if matched.task_id:
        return "at < ? AND task_id = ?", (microseconds(before), matched.task_id)
    return "at < ?", (microseconds(before),)


def _match_rater(database: Database, rater: str, matched: MatchedRows) -> None:
    query = database.query
    matched.rater_id = _name_id(database, "rater", rater)
    if not matched.rater_id:
        raise errors.UnknownName(
            f"There is no rater {rater!r}.", code="unknown_rater", hint="`headway rewards analyze` lists them."
        )
    values = _rater_values(matched)
    matched.signals = _count(database, f"FROM signals WHERE {_by_rater(matched)}", values)
    subjects = f"SELECT subject FROM signals WHERE {_by_rater(matched)}"
    matched.survivors = [
        int(row[0])
        for row in query(
            f"SELECT seq FROM decisions WHERE draw IS NULL AND id IN ({subjects}) UNION "
            f"SELECT r.seq FROM decisions f JOIN decisions r ON r.id = f.draw WHERE f.id IN ({subjects}) UNION "
            f"SELECT seq FROM decisions WHERE draw IS NULL AND episode IN ({subjects})",
            values * 3,
        )
    ]
    tasks = set()
    for chunk in chunks(matched.survivors):
        tasks |= {
            row[0]
            for row in query(
                "SELECT DISTINCT t.name FROM decisions d JOIN names t ON t.id = d.task_id "
                f"WHERE d.seq IN ({placeholders(chunk)})",
                chunk,
            )
        }
    matched.tasks = sorted(tasks)


def _by_rater(matched: MatchedRows) -> str:
    if not matched.task_id:
        return "rater_id = ?"
    return (
        "rater_id = ? AND (subject IN (SELECT id FROM decisions WHERE task_id = ?) "
        "OR subject IN (SELECT id FROM episodes WHERE task_id = ?))"
    )


def _rater_values(matched: MatchedRows) -> tuple[int, ...]:
    return (matched.rater_id,) if not matched.task_id else (matched.rater_id, matched.task_id, matched.task_id)


def outcomes(database: Database, matched: MatchedRows, task: str) -> Iterator[Settled]:
    """Every row of a task's outcome log that a deletion removes, including replaced rows, in log order."""
    select = f"SELECT {SETTLED_COLUMNS} FROM {SETTLED_TABLES}"
    task_id = _name_id(database, "task", task)
    inside = f"s.task_id = ? AND s.decision IN (SELECT seq FROM decisions WHERE {matched.where})"
    for page in database.pages(
        f"{select} WHERE {inside} AND s.seq > ? ORDER BY s.seq LIMIT ?", (task_id, *matched.values), after=0
    ):
        yield from map(settled_from_row, page)
    for chunk in chunks(matched.survivors):
        rows = database.query(
            f"{select} WHERE s.task_id = ? AND s.decision IN ({placeholders(chunk)}) ORDER BY s.seq", (task_id, *chunk)
        )
        yield from map(settled_from_row, rows)


def erase(connection: Connection, wanted: DeletionFilter, matched: MatchedRows) -> dict[str, int]:
    """Delete the rows that `plan_deletion` matched, inside the caller's transaction; deleted rows by table."""
    if wanted.before is None:
        count_deleted(connection, matched.where, matched.values)
    else:
        forget_deleted(connection, wanted.before, matched.task_id)
    _rewind(connection, matched)
    forget_totals(connection)
    forget_blocks(connection)
    matching = f"FROM decisions WHERE {matched.where}"
    deleted = {
        "settled": _delete(connection, f"settled WHERE decision IN (SELECT seq {matching})", matched.values)
        + _delete_outcomes(connection, matched.survivors),
        "signals": _delete_signals(connection, wanted, matched),
        "details": _delete(connection, f"details WHERE decision IN (SELECT id {matching})", matched.values),
        "imported": _delete(connection, f"imported WHERE decision IN (SELECT id {matching})", matched.values),
    }
    sets = [row[0] for row in connection.execute(f"SELECT DISTINCT candidate_set_id {matching}", matched.values)]
    deleted["decisions"] = _delete(connection, f"decisions WHERE {matched.where}", matched.values)
    empty = "NOT EXISTS (SELECT 1 FROM decisions d WHERE d.episode = episodes.id)"
    deleted["signals"] += _delete(connection, f"signals WHERE subject IN (SELECT id FROM episodes WHERE {empty})")
    deleted["episodes"] = _delete(connection, f"episodes WHERE {empty}")
    deleted["candidate_sets"] = _delete_chunks(
        connection, "candidate_sets WHERE id IN ({}) AND id NOT IN (SELECT candidate_set_id FROM decisions)", sets
    )
    deleted["raters"] = _delete_names(connection, "rater", "SELECT rater_id FROM signals")
    _delete_names(connection, "signal", "SELECT name_id FROM signals")
    _delete_names(connection, "role", "SELECT role_id FROM decisions")
    holders = ("decisions", "episodes", "experiences")
    _delete_names(connection, "key", " UNION ".join(f"SELECT key_id FROM {table}" for table in holders))
    _delete(connection, "configs WHERE id NOT IN (SELECT config_id FROM decisions)")
    _delete(connection, "imports WHERE id NOT IN (SELECT import_id FROM imported)")
    if wanted.before is not None:
        sql, values = _steps(wanted.before, matched)
        deleted["experiences"] = _delete(connection, f"experiences WHERE {sql}", values)
        limit = (microseconds(wanted.before),)
        deleted["jobs"] = _delete(connection, "jobs WHERE ended IS NOT NULL AND at < ?", limit)
    else:
        others = f"jobs WHERE ended IS NOT NULL AND kind NOT IN ({placeholders(_HARMLESS_JOBS)})"
        deleted["jobs"] = _delete(connection, others, _HARMLESS_JOBS)
    connection.execute(
        "INSERT INTO marks (task_id, name, value) VALUES (0, ?, 1) "
        "ON CONFLICT (task_id, name) DO UPDATE SET value = marks.value + 1",
        (_ERASED,),
    )
    return deleted


def _delete_signals(connection: Connection, wanted: DeletionFilter, matched: MatchedRows) -> int:
    """Delete the signals of the matching decisions, of the episode, or of the rater."""
    subjects = f"SELECT id FROM decisions WHERE {matched.where}"
    count = _delete(connection, f"signals WHERE subject IN ({subjects})", matched.values)
    for sql, values in _other_signals(wanted, matched):
        count += _delete(connection, f"signals WHERE {sql}", values)
    if matched.rater_id:
        count += _delete(connection, f"signals WHERE {_by_rater(matched)}", _rater_values(matched))
    return count


def _delete(connection: Connection, rows: str, values: Sequence[Any] = ()) -> int:
    return connection.execute(f"DELETE FROM {rows}", values).rowcount


def _delete_names(connection: Connection, kind: str, used: str) -> int:
    """Delete the names of one kind that no row uses any more."""
    return _delete(connection, f"names WHERE kind = ? AND name <> '' AND id NOT IN ({used})", (kind,))


def _delete_chunks(connection: Connection, rows: str, values: Sequence[Any]) -> int:
    return sum(_delete(connection, rows.format(placeholders(chunk)), chunk) for chunk in chunks(values))


def _delete_outcomes(connection: Connection, draws: Sequence[int]) -> int:
    """Delete the outcomes of these draws. Of each, the first row stays, pending: it says when the draw first settled.

    Without it, a policy would be proven by decisions that it was trained on.
    """
    later = "EXISTS (SELECT 1 FROM settled f WHERE f.decision = settled.decision AND f.seq < settled.seq)"
    _delete_chunks(connection, f"settled WHERE decision IN ({{}}) AND {later}", draws)
    return sum(
        connection.execute(
            "UPDATE settled SET reward = NULL, status = 0, clipped = 0, weight = NULL, replaces = NULL "
            f"WHERE decision IN ({placeholders(chunk)}) AND status <> 0",
            chunk,
        ).rowcount
        for chunk in chunks(draws)
    )


def _rewind(connection: Connection, matched: MatchedRows) -> None:
    """Move the settling marks before the remaining signals of survivors, and have raters compared again."""
    signals: dict[int, int] = {}
    draws: dict[int, int] = {}
    for chunk in chunks(matched.survivors):
        marks = placeholders(chunk)
        for task, seq in connection.execute(
            f"SELECT task_id, MIN(seq) FROM decisions WHERE seq IN ({marks}) GROUP BY task_id", chunk
        ):
            draws[task] = min(seq, draws.get(task, seq))
        for task, seq in connection.execute(
            f"SELECT d.task_id, MIN(g.seq) FROM decisions d JOIN signals g ON g.subject = d.id "
            f"WHERE d.seq IN ({marks}) GROUP BY d.task_id UNION ALL "
            f"SELECT d.task_id, MIN(g.seq) FROM decisions d JOIN decisions f ON f.draw = d.id "
            f"JOIN signals g ON g.subject = f.id WHERE d.seq IN ({marks}) GROUP BY d.task_id UNION ALL "
            f"SELECT d.task_id, MIN(g.seq) FROM decisions d JOIN signals g ON g.subject = d.episode "
            f"WHERE d.seq IN ({marks}) GROUP BY d.task_id",
            (*chunk, *chunk, *chunk),
        ):
            signals[task] = min(seq, signals.get(task, seq))
    for name, before in (("signals", signals), ("expired", draws)):
        for task, seq in before.items():
            connection.execute(
                "UPDATE marks SET value = ? WHERE task_id = ? AND name = ? AND value >= ?", (seq - 1, task, name, seq)
            )
    connection.execute("DELETE FROM marks WHERE name = 'agreed'")


def _name_id(database: Database, kind: str, name: str) -> int:
    """Not through `Query`, which caches ids: a deletion may remove names."""
    rows = database.query("SELECT id FROM names WHERE kind = ? AND name = ?", (kind, name))
    return int(rows[0][0]) if rows else 0

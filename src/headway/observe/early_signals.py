"""Signals that come before their decision: they wait for it for a day, and so many of one rater and no more.

Whoever may signal could otherwise fill the disk, or lay down rewards for ids that are to be used one day. A signal that
waits has the time of its arrival in `early`; when nobody has come within a day, it goes.
"""

from __future__ import annotations

from headway.nouns.errors import Busy
from headway.observe.database import Connection, Database
from headway.observe.rows import microseconds

__all__ = ["MOST", "WAIT_S", "admit", "expire"]

WAIT_S = 86_400.0
MOST = 10_000  # of one rater

_CAME = (
    "(EXISTS (SELECT 1 FROM decisions d WHERE d.id = signals.subject) "
    "OR EXISTS (SELECT 1 FROM episodes e WHERE e.id = signals.subject))"
)


def admit(connection: Connection, rater_id: int, now: float) -> int:
    """What to write into `early` of one more signal; Busy where too many wait already."""
    _drop(connection, now)
    if _waiting(connection, rater_id) >= MOST:
        connection.execute(
            f"UPDATE signals SET early = NULL WHERE early IS NOT NULL AND rater_id = ? AND {_CAME}", (rater_id,)
        )
        if _waiting(connection, rater_id) >= MOST:
            raise Busy(
                f"{MOST:,} signals of this rater wait for their decisions.",
                code="too_many_early",
                hint="Record the decisions, or signal after them; what waits for a day is dropped.",
                retry_after_s=60.0,
            )
    return microseconds(now)


def expire(database: Database, now: float) -> None:
    """Drop what has waited for a day."""
    if database.query("SELECT 1 FROM signals WHERE early <= ? LIMIT 1", (microseconds(now - WAIT_S),)):
        with database.transaction() as connection:
            _drop(connection, now)


def _waiting(connection: Connection, rater_id: int) -> int:
    row = connection.execute(
        "SELECT COUNT(*) FROM signals WHERE early IS NOT NULL AND rater_id = ?", (rater_id,)
    ).fetchone()
    return int(row[0])


def _drop(connection: Connection, now: float) -> None:
    limit = microseconds(now - WAIT_S)
    if connection.execute("SELECT 1 FROM signals WHERE early <= ? LIMIT 1", (limit,)).fetchone() is None:
        return
    connection.execute(f"DELETE FROM signals WHERE early <= ? AND NOT {_CAME}", (limit,))
    connection.execute("UPDATE signals SET early = NULL WHERE early <= ?", (limit,))

"""Early signals arrive before their decision. They are stored for 24 hours, at most 10,000 per rater.

Without these limits a client could fill the disk, or plant rewards for ids that will be used later. The column `early`
holds the arrival time of a waiting signal; if no decision arrives within 24 hours, the signal is deleted.
"""

from __future__ import annotations

from headway.nouns import Busy
from headway.observe.database import Connection, Database
from headway.observe.rows import microseconds

WAIT_S = 86_400.0
MOST = 10_000  # per rater

_ARRIVED = (
    "(EXISTS (SELECT 1 FROM decisions d WHERE d.id = signals.subject) "
    "OR EXISTS (SELECT 1 FROM episodes e WHERE e.id = signals.subject))"
)


def admit(connection: Connection, rater_id: int, now: float) -> int:
    """The value of `early` for one more signal; raises Busy if too many are waiting."""
    _drop(connection, now)
    if _waiting(connection, rater_id) >= MOST:
        connection.execute(
            f"UPDATE signals SET early = NULL WHERE early IS NOT NULL AND rater_id = ? AND {_ARRIVED}", (rater_id,)
        )
        if _waiting(connection, rater_id) >= MOST:
            raise Busy(
                f"{MOST:,} signals of this rater are waiting for their decisions.",
                code="too_many_early",
                hint="Record the decisions first. Waiting signals are deleted after 24 hours.",
                retry_after_s=60.0,
            )
    return microseconds(now)


def expire(database: Database, now: float) -> None:
    """Delete signals that have waited for 24 hours."""
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
    connection.execute(f"DELETE FROM signals WHERE early <= ? AND NOT {_ARRIVED}", (limit,))
    connection.execute("UPDATE signals SET early = NULL WHERE early <= ?", (limit,))

"""Store signals: the live one of a rater is replaced, a repeated one counts once.

Early signals come before their decision. They wait for 24 hours, at most 10,000 per rater, so that no client can fill
the disk or plant rewards for ids that will be used later. The column `early` holds when such a signal came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.nouns import Signal, errors, ids
from headway.observe.database import Connection, Database, placeholders
from headway.observe.insert import Interner
from headway.observe.rows import microseconds
from headway.observe.units import ATTEMPT, PROXY, fold_attempts


def put_signal(
    connection: Connection, intern: Interner, signal: Signal, subject: bytes, *, early: bool = False, now: float = 0.0
) -> int:
    """Store a signal; 1 if it changed something. `early`: it may come before its decision, `now`."""
    table = "episodes" if ids.is_episode(signal.subject) else "decisions"
    waits = connection.execute(f"SELECT 1 FROM {table} WHERE id = ?", (subject,)).fetchone() is None
    if waits and not early:
        raise errors.UnknownName(
            f"There is no decision or episode {signal.subject!r}.",
            code="unknown_decision",
            hint="Signal the id that `decide` returned; if the decision is recorded later, pass early=True.",
        )
    name_id, rater_id = intern.name("signal", signal.name), intern.name("rater", signal.rater)
    rows = connection.execute(
        "SELECT seq, key, value, label, withdrawn_by FROM signals WHERE subject = ? AND name_id = ? AND rater_id = ?",
        (subject, name_id, rater_id),
    ).fetchall()
    key = signal.key
    live = next((row for row in rows if row[4] is None and row[2] is not None), None)
    if key:
        same = next((row for row in rows if row[1] == key), None)
        if same is not None:
            if same[2] == signal.value and (same[3] or "") == signal.label:
                return 0
            raise errors.Conflict(
                f"The signal {signal.name!r} with key {key!r} was stored with another value.",
                code="signal_conflict",
                hint="Use a new key to replace the value, or repeat the first value.",
            )
    else:
        if live is not None and live[2] == signal.value and (live[3] or "") == signal.label:
            return 0
        key = f"~{len(rows)}" if rows else ""
    if signal.value is None and live is None:
        raise errors.InvalidInput(
            f"{signal.subject!r} has no signal {signal.name!r} from rater {signal.rater!r} to withdraw.",
            code="nothing_to_withdraw",
            hint="`headway explain` lists the signals of a decision.",
        )
    since = admit(connection, rater_id, now) if waits else None
    (seq,) = connection.execute(
        "INSERT INTO signals (subject, name_id, value, label, rater_id, at, key, early) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq",
        (subject, name_id, signal.value, signal.label or None, rater_id, microseconds(signal.at), key, since),
    ).fetchone()
    if live is not None:
        connection.execute("UPDATE signals SET withdrawn_by = ? WHERE seq = ?", (seq, live[0]))
    if signal.name == ATTEMPT and signal.rater == PROXY and signal.label:
        fold_attempts(connection, [subject])
    return 1


NewSignal = tuple[bytes, str, float, str, str, float, str]  # subject, name, value, label, rater, time, key


def add_signals(connection: Connection, intern: Interner, signals: Sequence[NewSignal]) -> None:
    """Add signals to stored decisions; existing ones stay."""
    names = {name: intern.name("signal", name) for name in dict.fromkeys(signal[1] for signal in signals)}
    raters = {rater: intern.name("rater", rater) for rater in dict.fromkeys(signal[4] for signal in signals)}
    rows = [
        (subject, names[name], value, label or None, raters[rater], microseconds(at), key)
        for subject, name, value, label, rater, at, key in signals
    ]
    connection.executemany(
        "INSERT INTO signals (subject, name_id, value, label, rater_id, at, key) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (subject, name_id, rater_id, key) DO NOTHING",
        rows,
    )
    if ATTEMPT in names and (linked := [one[0] for one in signals if one[1] == ATTEMPT and one[3]]):
        fold_attempts(connection, linked)


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
            raise errors.Busy(
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


Given = tuple[int, str, str, float]  # a live signal: draw, name, rater, value
_PAGE = 1000
_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


def signals_given(database: Database, task_id: int, name_of: Callable[[int], str], *, several: bool) -> list[Given]:
    """Live signals by draw, as the settler reads them; `several`: those with more than one rater."""
    columns = "SELECT g.seq, g.name_id, g.rater_id, g.value"
    signals: list[Given] = []
    live = _LIVE
    if several:  # measured signals have one source, and there may be millions
        rows = database.query(
            f"SELECT g.name_id FROM signals g WHERE {live} GROUP BY g.name_id HAVING COUNT(DISTINCT g.rater_id) > 1"
        )
        if not rows:
            return []
        live += f" AND g.name_id IN ({', '.join(str(int(row[0])) for row in rows)})"
    for joined in (
        "d.seq FROM signals g JOIN decisions d ON d.id = g.subject WHERE d.draw IS NULL",
        "d.seq FROM signals g JOIN decisions f ON f.id = g.subject JOIN decisions d ON d.id = f.draw WHERE 1 = 1",
    ):
        pages = database.pages(
            f"{columns}, {joined} AND d.task_id = ? AND {live} AND g.seq > ? ORDER BY g.seq LIMIT ?",
            (task_id,),
            after=0,
        )
        for page in pages:
            signals += [(draw, name_of(name), name_of(rater), value) for _, name, rater, value, draw in page]
    pages = database.pages(
        f"{columns}, g.subject FROM signals g JOIN episodes e ON e.id = g.subject WHERE e.task_id = ? "
        f"AND {live} AND g.seq > ? ORDER BY g.seq LIMIT ?",
        (task_id,),
        after=0,
        size=_PAGE,
    )
    for page in pages:
        episodes = sorted({row[4] for row in page})
        draws: dict[bytes, list[int]] = {}
        for episode, draw in database.query(
            f"SELECT episode, seq FROM decisions WHERE episode IN ({placeholders(episodes)}) AND draw IS NULL", episodes
        ):
            draws.setdefault(episode, []).append(draw)
        for _, name, rater, value, episode in page:
            signals += [(draw, name_of(name), name_of(rater), value) for draw in draws.get(episode, ())]
    return signals

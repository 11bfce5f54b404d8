"""Store signals: the live one of a rater is replaced, a repeated one counts once."""

from __future__ import annotations

from collections.abc import Sequence

from headway.nouns import Conflict, InvalidInput, Signal, UnknownName, id_bytes, is_episode
from headway.observe.database import Connection
from headway.observe.early_signals import admit
from headway.observe.names import Interner
from headway.observe.rows import microseconds
from headway.observe.units import ATTEMPT, PROXY, fold_attempts


def put_signal(
    connection: Connection, intern: Interner, signal: Signal, subject: bytes, *, early: bool = False, now: float = 0.0
) -> int:
    """Store a signal; 1 if it changed something. `early`: it may come before its decision, `now`."""
    table = "episodes" if is_episode(signal.subject) else "decisions"
    waits = connection.execute(f"SELECT 1 FROM {table} WHERE id = ?", (subject,)).fetchone() is None
    if waits and not early:
        raise UnknownName(
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
            raise Conflict(
                f"The signal {signal.name!r} with key {key!r} was stored with another value.",
                code="signal_conflict",
                hint="Use a new key to replace the value, or repeat the first value.",
            )
    else:
        if live is not None and live[2] == signal.value and (live[3] or "") == signal.label:
            return 0
        key = f"~{len(rows)}" if rows else ""
    if signal.value is None and live is None:
        raise InvalidInput(
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


def add_signals(connection: Connection, intern: Interner, signals: Sequence[Signal]) -> None:
    """Add signals to stored decisions; existing ones stay."""
    rows = [
        (id_bytes(each.subject), intern.name("signal", each.name), each.value, each.label or None,
         intern.name("rater", each.rater), microseconds(each.at), each.key)
        for each in signals
    ]  # fmt: skip
    connection.executemany(
        "INSERT INTO signals (subject, name_id, value, label, rater_id, at, key) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (subject, name_id, rater_id, key) DO NOTHING",
        rows,
    )
    if linked := [id_bytes(each.subject) for each in signals if each.name == ATTEMPT and each.label]:
        fold_attempts(connection, linked)

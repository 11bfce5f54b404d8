"""The decisions of one episode in the order of their steps: what a policy with a memory folds over.

last_step(database, "plan", "run-7")                 # its latest decision, without reading the others
decisions_of(database, "plan", "run-7", first=3)     # every stored decision from step 3
"""

from __future__ import annotations

from headway.nouns import Conflict, Decision, episode_id, id_bytes
from headway.observe.database import Connection, Database
from headway.observe.rows import DECISION_COLUMNS, DECISION_TABLES, decision_from_row

_SELECT = f"SELECT {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE d.episode = ?"


def last_step(database: Database, task: str, episode: str) -> Decision | None:
    """The latest decision of an episode; None if it has none."""
    raw = id_bytes(episode_id(task, episode))
    rows = database.query(f"{_SELECT} ORDER BY d.step DESC LIMIT 1", (raw,))
    return decision_from_row(rows[0]) if rows else None


def decisions_of(
    database: Database, task: str, episode: str, *, first: int = 0, before: int | None = None
) -> list[Decision]:
    """The decisions of an episode from step `first`, up to (without) step `before`."""
    raw = id_bytes(episode_id(task, episode))
    sql, values = f"{_SELECT} AND d.step >= ?", [raw, first]
    if before is not None:
        sql, values = f"{sql} AND d.step < ?", [*values, before]
    return [decision_from_row(row) for row in database.query(f"{sql} ORDER BY d.step", values)]


def step_in(connection: Connection, episode: bytes, name: str, step: int | None, *, opening: bool) -> tuple[int, int]:
    """The step of a new decision and its position, which is 0 for the first one; Conflict if the step is taken.

    `opening`: it must be the first.
    """
    last = connection.execute("SELECT MAX(step) FROM decisions WHERE episode = ?", (episode,)).fetchone()[0]
    if opening and last is not None:
        raise Conflict(f"The episode {name!r} already has a draw.", code="draw_exists", hint="Read its first decision.")
    if step is None:
        step = 0 if last is None else last + 1
    elif connection.execute("SELECT 1 FROM decisions WHERE episode = ? AND step = ?", (episode, step)).fetchone():
        raise Conflict(
            f"Step {step} of the episode {name!r} is already decided.",
            code="step_conflict",
            hint=f"The next free step is {last + 1}; omit `step` to use it.",
        )
    return step, 0 if last is None else max(1, step)

"""Stores steps of callers: a vector, an action, its reward and the next vector.

    kept = ExperienceStore(database, "mutate-embedded")
    kept.add(Step(state=…, action=3, reward=0.5, next_state=…, done=False, log_prob=-1.6, value=0.1), now=clock())
    kept.count(after=120)                    # the number of steps for the next update
    kept.rows(after=120, most=2048)          # the newest of them, oldest first
    kept.totals()                            # episodes, mean and greatest reward of all steps ever stored

Vectors are stored as 32-bit floats until an update has used them; rewards stay.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from headway.nouns import errors
from headway.observe import Connection, Database, microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    state: Sequence[float]
    action: int
    reward: float
    next_state: Sequence[float]
    done: bool
    log_prob: float
    value: float
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    steps: int
    episodes: int
    mean_reward: float
    most_reward: float


class ExperienceStore:
    """The steps of one task."""

    def __init__(self, database: Database, task: str) -> None:
        self._database = database
        self._task = task

    def add(self, step: Step, *, now: float, key: str = "", after: int = 0, width: int | None = None) -> int:
        """Store one step; returns the number of steps after `after`. Another width than that of the others is refused.

        `width` is the policy's; without it, the first step that still has its vectors defines it.
        """
        mine = len(step.state)
        with self._database.transaction() as connection:
            task_id = _id(connection, "task", self._task)
            if width is None:
                row = connection.execute(
                    "SELECT width FROM experiences WHERE task_id = ? AND seq > ? ORDER BY seq LIMIT 1", (task_id, after)
                ).fetchone()
                width = mine if row is None else int(row[0])
            if mine != width or len(step.next_state) != width:
                raise wrong_width(mine if mine != width else len(step.next_state), width)
            connection.execute(
                "INSERT INTO experiences "
                "(task_id, width, state, action, reward, next_state, done, log_prob, value, key_id, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(task_id, width, _packed(step.state), step.action, step.reward, _packed(step.next_state)),
                    *(int(step.done), step.log_prob, step.value, _id(connection, "key", key), microseconds(now)),
                ),
            )
            row = connection.execute(
                "SELECT COUNT(*) FROM experiences WHERE task_id = ? AND seq > ?", (task_id, after)
            ).fetchone()
        assert row is not None
        return int(row[0])

    def count(self, *, after: int = 0) -> int:
        rows = self._database.query(f"SELECT COUNT(*) {_FROM} AND e.seq > ?", (self._task, after))
        return int(rows[0][0])

    def rows(self, *, after: int, most: int) -> list[Step]:
        """The newest `most` steps after `after` that still have their vectors, oldest first."""
        rows = self._database.query(
            f"SELECT e.seq, e.state, e.action, e.reward, e.next_state, e.done, e.log_prob, e.value {_FROM} "
            "AND e.seq > ? AND e.state IS NOT NULL ORDER BY e.seq DESC LIMIT ?",
            (self._task, after, most),
        )
        return [
            Step(
                state=_unpacked(state),
                action=int(action),
                reward=float(reward),
                next_state=_unpacked(next_state),
                done=bool(done),
                log_prob=float(log_prob),
                value=float(value),
                seq=int(seq),
            )
            for seq, state, action, reward, next_state, done, log_prob, value in reversed(rows)
        ]

    def last(self) -> int:
        """The number of the newest step; 0 if there is none."""
        return int(self._database.query(f"SELECT COALESCE(MAX(e.seq), 0) {_FROM}", (self._task,))[0][0])

    def totals(self) -> Totals:
        rows = self._database.query(
            "SELECT COUNT(*), COALESCE(SUM(e.done), 0), COALESCE(AVG(e.reward), 0), COALESCE(MAX(e.reward), 0) "
            f"{_FROM}",
            (self._task,),
        )
        steps, episodes, mean, most = rows[0]
        return Totals(steps=int(steps), episodes=int(episodes), mean_reward=float(mean), most_reward=float(most))

    def forget(self, *, upto: int) -> None:
        """Delete the vectors of steps that an update has used."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE experiences SET state = NULL, next_state = NULL "
                "WHERE task_id = ? AND seq <= ? AND state IS NOT NULL",
                (_id(connection, "task", self._task), upto),
            )


_FROM = "FROM experiences e WHERE e.task_id = (SELECT id FROM names WHERE kind = 'task' AND name = ?)"


def wrong_width(width: int, wanted: int) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"The embedding has {width:,} numbers, expected {wanted:,}.",
        code="bad_shape",
        hint="Embed every prompt with the same encoder.",
    )


def _packed(values: Sequence[float]) -> bytes:
    return array("f", values).tobytes()


def _unpacked(blob: bytes) -> array[float]:
    values = array("f")
    values.frombytes(bytes(blob))
    return values


def _id(connection: Connection, kind: str, name: str) -> int:
    row = connection.execute("SELECT id FROM names WHERE kind = ? AND name = ?", (kind, name)).fetchone()
    if row is None:
        row = connection.execute("INSERT INTO names (kind, name) VALUES (?, ?) RETURNING id", (kind, name)).fetchone()
    assert row is not None
    return int(row[0])

"""How many draws were deleted, which a proof counts as missing: users whom an action failed may ask for it more often.

The counts say nothing about whose draws they were: a day, a hash of the action's name, the parts of the split, a
number. What a deletion by age removes, it removes whatever came of it: that is not counted, and older counts go too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from headway.nouns import errors
from headway.observe.database import Connection, Database
from headway.observe.experience import Part, SplitBy, part_of
from headway.observe.rows import DECISION_COLUMNS, DECISION_TABLES, LEADS, decision_from_row, microseconds

if TYPE_CHECKING:
    from headway.observe.query import Query


DAY = 86_400_000_000  # microseconds
_MARK = "deleted"


@dataclass(frozen=True, slots=True)
class DeletedDraws:
    """Draws of one day, action and part."""

    day: int  # since 1970
    action: str  # its `action_code`
    parts: Mapping[SplitBy, Part]
    count: int


@lru_cache(maxsize=4096)
def action_code(action: str) -> str:
    """A short hash of an action's name."""
    return blake2b(action.encode(), digest_size=8).hexdigest()


def count_deleted(connection: Connection, where: str, values: Sequence[Any]) -> None:
    """Add the draws that a deletion is about to remove and that a proof could have read."""
    tasks = f"SELECT d.task_id, {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE {LEADS}"
    counts: Counter[tuple[int, str]] = Counter()
    for task, *row in connection.execute(f"{tasks} AND d.seq IN (SELECT seq FROM decisions WHERE {where})", values):
        with suppress(errors.Damaged):  # no proof can read it
            decision = decision_from_row(row)
            if decision.propensity_known and decision.source != "mined":
                parts = f"{part_of(decision, 'group')} {part_of(decision, 'decision')}"
                day = microseconds(decision.at) // DAY
                counts[task, f"{_MARK} {day} {action_code(decision.action)} {parts}"] += 1
    connection.executemany(
        "INSERT INTO marks (task_id, name, value) VALUES (?, ?, ?) "
        "ON CONFLICT (task_id, name) DO UPDATE SET value = marks.value + excluded.value",
        [(task, name, count) for (task, name), count in counts.items()],
    )


def forget_deleted(connection: Connection, before: float, task_id: int) -> None:
    """Remove the counts of the days before a time, of one task or of all (0)."""
    names = connection.execute(f"SELECT DISTINCT name FROM marks WHERE name LIKE '{_MARK} %'").fetchall()
    old = [(name, task_id, task_id) for (name,) in names if int(name.split()[1]) < microseconds(before) // DAY]
    connection.executemany("DELETE FROM marks WHERE name = ? AND (task_id = ? OR ? = 0)", old)


def deleted_draws(database: Database, query: Query, task: str) -> list[DeletedDraws]:
    """What was deleted of a task, by day."""
    found = []
    sql = f"SELECT name, value FROM marks WHERE task_id = ? AND name LIKE '{_MARK} %'"
    for name, count in database.query(sql, (query.name_id("task", task),)):
        _, day, action, group, decision = name.split()
        found.append(DeletedDraws(int(day), action, {"group": group, "decision": decision}, int(count)))
    return sorted(found, key=lambda draws: draws.day)

"""What came since a moment: the latest decisions, how many there are, changes of settings, and changes for who polls.

All by a fixed number of index lookups, however long the log is. `config_changes` looks at the log in a fixed number of
places, and finds the change between two that differ by bisection: one that was taken back in between is not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.observe.database import Database
from headway.observe.rows import LEADS, decode_candidates
from headway.observe.totals import action_totals

if TYPE_CHECKING:
    from headway.observe.query import Query


def count_since(database: Database, query: Query, task: str, at: float, action: str = "") -> tuple[int, int]:
    """Units of a task that began after a time, and in how many of them this action and another could be chosen.

    Found by bisection: the store's order is taken to be the clock's.
    """
    task_id, moment = query.name_id("task", task), int(at * 1e6)
    low, high = 0, query.last_decision(task)
    while low < high:  # `low`: the last decision that is known not to be later
        middle = (low + high + 1) // 2
        rows = database.query(
            "SELECT seq, at FROM decisions WHERE task_id = ? AND seq >= ? ORDER BY seq LIMIT 1", (task_id, middle)
        )
        seq, decided = rows[0]
        if decided <= moment:
            low = int(seq)
        else:
            high = middle - 1
    count = query.count_units(task, after=low)
    if all(_is_choice(body, action) for body, _, _ in action_totals(database, task_id)):
        return count, count
    rows = database.query(
        "SELECT c.body, COUNT(*) FROM decisions d JOIN candidate_sets c ON c.id = d.candidate_set_id "
        f"WHERE d.task_id = ? AND d.seq > ? AND {LEADS} GROUP BY c.body",
        (task_id, low),
    )
    return count, sum(int(number) for body, number in rows if _is_choice(body, action))


def _is_choice(body: str, action: str) -> bool:
    names = [candidate.name for candidate in decode_candidates(body)]
    return len(names) > 1 and (not action or action in names)


def latest_draws(database: Database, query: Query, task: str, most: int) -> list[int]:
    """The store's numbers of the latest draws of a task, oldest first."""
    rows = database.query(
        f"SELECT d.seq FROM decisions d WHERE d.task_id = ? AND {LEADS} ORDER BY d.seq DESC LIMIT ?",
        (query.name_id("task", task), most),
    )
    return [int(seq) for (seq,) in reversed(rows)]


_PLACES = 200
_AT = (
    "SELECT d.seq, d.at, c.body, p.ref FROM decisions d JOIN configs c ON c.id = d.config_id "
    "JOIN policies p ON p.id = d.policy_id WHERE d.task_id = ? AND d.seq >= ? ORDER BY d.seq LIMIT 1"
)
_LAST = "SELECT seq FROM decisions WHERE task_id = ? ORDER BY seq DESC LIMIT 1"


class SeenDecision(NamedTuple):
    """A decision as the history of a task needs it."""

    seq: int
    at: float
    config: str  # the body of its configuration
    policy: str


def config_changes(
    database: Database, query: Query, task: str, key: Callable[[str], str]
) -> list[tuple[SeenDecision, SeenDecision]]:
    """(the last look before, the first decision after) each change of `key(configuration)`, oldest first."""
    task_id = query.name_id("task", task)
    before, rows = first_decision(database, task_id), database.query(_LAST, (task_id,))
    if before is None or not rows:
        return []
    first, last = before.seq, int(rows[0][0])
    changes = []
    for place in range(1, _PLACES + 1):
        seen = first_decision(database, task_id, first + (last - first) * place // _PLACES)
        assert seen is not None
        if key(seen.config) != key(before.config):
            changes.append((before, _bisected(database, task_id, before, seen, key)))
        before = seen
    return changes


def _bisected(
    database: Database, task_id: int, before: SeenDecision, after: SeenDecision, key: Callable[[str], str]
) -> SeenDecision:
    """The first decision with the later configuration."""
    low, high, wanted = before.seq, after.seq, key(after.config)
    while high - low > 1:
        place = (low + high) // 2
        seen = first_decision(database, task_id, place)
        assert seen is not None
        if key(seen.config) == wanted:  # so has the first decision from here on
            high, after = place, seen
        else:
            low = seen.seq
    return after


def first_decision(database: Database, task_id: int, seq: int = 0) -> SeenDecision | None:
    """The oldest decision of a task that is still stored, from this number on."""
    rows = database.query(_AT, (task_id, seq))
    return SeenDecision(int(rows[0][0]), rows[0][1] / 1e6, rows[0][2], rows[0][3]) if rows else None


_LATEST_JOBS = "SELECT seq, kind, state, done, total FROM jobs ORDER BY seq DESC LIMIT 20"


class Changes:
    """Remembers its position. It starts at the present: earlier changes are not reported."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._version = -1
        self._ledger = int(database.query("SELECT MAX(seq) FROM ledger")[0][0] or 0)
        self._jobs = frozenset(database.query(_LATEST_JOBS))
        self.last = {"decisions": 0, "signals": 0}
        self.news()

    def moved(self) -> bool:
        """Whether anything was committed since the last call (4 µs). Always call it from the same thread."""
        version = self._database.version()
        if version == self._version:
            return False
        self._version = version
        return True

    def news(self) -> list[tuple[str, dict[str, Any]]]:
        """The changes since the last call as (name, data): ledger rows, last decision and signal, progress of jobs."""
        query = self._database.query
        changes: list[tuple[str, dict[str, Any]]] = []
        for seq, task, kind, policy in query(
            "SELECT l.seq, t.name, l.kind, l.policy FROM ledger l JOIN names t ON t.id = l.task_id "
            "WHERE l.seq > ? ORDER BY l.seq LIMIT 100",
            (self._ledger,),
        ):
            self._ledger = seq
            changes.append(("ledger", {"seq": seq, "task": task, "kind": kind, "policy": policy}))
        for table, before in self.last.items():
            last = int(query(f"SELECT MAX(seq) FROM {table}")[0][0] or 0)
            if last != before:
                self.last[table] = last
                changes.append((table, {"last": last}))
        jobs = query(_LATEST_JOBS)
        changes += [
            ("progress", dict(zip(("job", "kind", "state", "done", "total"), row, strict=True)))
            for row in reversed(jobs)
            if row not in self._jobs
        ]
        self._jobs = frozenset(jobs)
        return changes

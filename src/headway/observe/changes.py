"""What changed since the last call, in a few cheap reads: for callers that poll."""

from __future__ import annotations

from typing import Any

from headway.observe.database import Database

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

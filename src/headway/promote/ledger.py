"""Who is live, as an append-only ledger. `current` is the last row that says so; rollback is one more row.

    candidate   a bundle was learned
    plan        a horizon was registered for the test to come
    shadow      a candidate is compared without acting
    canary      a candidate acts on a share of the traffic
    promote     a policy became current, on evidence (or with the gate off, which is written down)
    rollback    an earlier policy, or the built-in baseline, became current again
    retire      a candidate was set aside
    snapshot    an online policy published its state

Each row names `expects`, the current policy that the change was decided against: if another change came in between,
the row is refused (`stale_evidence`). One transaction per change; UNIQUE(task, n) rules out a lost update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import Conflict
from headway.observe.database import Connection, Database
from headway.observe.query import Query
from headway.observe.rows import dumps, loads, microseconds

__all__ = ["Entry", "EntryKind", "Ledger", "State"]

EntryKind = Literal["candidate", "plan", "shadow", "canary", "promote", "rollback", "retire", "snapshot"]
State = Literal["candidate", "shadow", "canary", "current", "retired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change of who is live, and why."""

    task: str
    kind: EntryKind
    policy: str
    policy_hash: str
    expects: str = ""  # hash of the policy that was current when this was decided
    who: str = ""
    why: str = ""
    evidence_id: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    n: int = 0
    seq: int = 0


_COLUMNS = "t.name, l.kind, l.policy, l.policy_hash, l.expects, l.who, l.why, l.evidence_id, l.detail, l.at, l.n, l.seq"


class Ledger:
    """The ledger of all tasks of a project."""

    def __init__(self, database: Database, query: Query) -> None:
        self._database = database
        self._query = query

    def append(self, entry: Entry) -> Entry:
        """Write one change; refused if another policy than `entry.expects` is current by now."""
        with self._database.transaction() as connection:
            seq = self.write(connection, entry)
        return self.entries(entry.task, after=seq - 1)[0]

    def write(self, connection: Connection, entry: Entry) -> int:
        """The same inside a transaction of the caller's; the row's number."""
        task_id = _task_id(connection, entry.task)
        if entry.kind in ("promote", "rollback", "canary", "snapshot"):
            row = connection.execute(
                "SELECT policy, policy_hash FROM ledger WHERE task_id = ? "
                "AND kind IN ('promote', 'rollback', 'snapshot') ORDER BY n DESC LIMIT 1",
                (task_id,),
            ).fetchone()
            current = row[1] if row else ""
            if current != entry.expects:
                name = row[0] if row else "the built-in baseline"
                raise Conflict(
                    f"{name} became current of {entry.task!r} in the meantime.",
                    code="stale_evidence",
                    hint=f"Prove it against the policy that is current now: headway prove {entry.task}",
                )
        last = connection.execute("SELECT MAX(n) FROM ledger WHERE task_id = ?", (task_id,)).fetchone()[0] or 0
        row = connection.execute(
            "INSERT INTO ledger "
            "(task_id, n, kind, policy, policy_hash, expects, who, why, evidence_id, detail, at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq",
            (
                task_id,
                last + 1,
                entry.kind,
                entry.policy,
                entry.policy_hash,
                entry.expects,
                entry.who,
                entry.why,
                entry.evidence_id,
                dumps(entry.detail),
                microseconds(entry.at),
            ),
        ).fetchone()
        return int(row[0])

    def entries(self, task: str, *, after: int = 0) -> list[Entry]:
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM ledger l JOIN names t ON t.id = l.task_id "
            "WHERE l.task_id = ? AND l.seq > ? ORDER BY l.n",
            (self._query.name_id("task", task), after),
        )
        return [
            Entry(
                task=task_name,
                kind=kind,
                policy=policy,
                policy_hash=digest,
                expects=expects,
                who=who,
                why=why,
                evidence_id=evidence_id,
                detail=loads(detail),
                at=at / 1e6,
                n=n,
                seq=seq,
            )
            for task_name, kind, policy, digest, expects, who, why, evidence_id, detail, at, n, seq in rows
        ]

    def current(self, task: str) -> Entry | None:
        """The row that made the current policy current; None: the built-in baseline has never been replaced."""
        live = [each for each in self.entries(task) if each.kind in ("promote", "rollback", "snapshot")]
        return live[-1] if live else None

    def previous(self, task: str) -> Entry | None:
        """The policy that was current before the current one came by promotion; what `rollback` returns to."""
        live = [each for each in self.entries(task) if each.kind in ("promote", "rollback")]
        if not live:
            return None
        now = live[-1].policy_hash
        return next((each for each in reversed(live[:-1]) if each.policy_hash != now), None)

    def canary(self, task: str) -> Entry | None:
        """The canary that acts now, if any: the last canary row unless a later change ended it."""
        last: Entry | None = None
        for entry in self.entries(task):
            if entry.kind == "canary":
                last = entry if float(entry.detail.get("share", 0.0)) > 0 else None
            elif entry.kind in ("promote", "rollback") or (
                entry.kind == "retire" and last is not None and entry.policy_hash == last.policy_hash
            ):
                last = None
        return last

    def plan(self, task: str) -> Entry | None:
        """The registered test that is open: the last plan since the last promotion or rollback."""
        last: Entry | None = None
        for entry in self.entries(task):
            if entry.kind == "plan":
                last = entry
            elif entry.kind in ("promote", "rollback"):
                last = None
        return last

    def states(self, task: str) -> dict[str, State]:
        """Where every policy of the task stands, by hash."""
        states: dict[str, State] = {}
        current = ""
        for entry in self.entries(task):
            match entry.kind:
                case "candidate":
                    states.setdefault(entry.policy_hash, "candidate")
                case "shadow" | "canary":
                    states[entry.policy_hash] = entry.kind
                case "retire":
                    states[entry.policy_hash] = "retired"
                case "promote" | "rollback" | "snapshot":
                    if current:
                        states[current] = "retired"
                    states[entry.policy_hash] = "current"
                    current = entry.policy_hash
                case "plan":
                    pass
        return states

    def challengers(self, task: str) -> list[Entry]:
        """Candidates since the last promotion, oldest first; the k-th one gets the k-th share of the error budget."""
        found: list[Entry] = []
        for entry in self.entries(task):
            if entry.kind in ("promote", "rollback"):
                found = []
            elif entry.kind == "candidate" and entry.policy_hash not in {each.policy_hash for each in found}:
                found.append(entry)
        return found

    # -- evidence

    def keep_evidence(self, identifier: str, task: str, policy_hash: str, body: Mapping[str, Any], at: float) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO evidence (id, task_id, policy_hash, at, body) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO NOTHING",
                (identifier, _task_id(connection, task), policy_hash, microseconds(at), dumps(body)),
            )

    def evidence(self, identifier: str) -> Mapping[str, Any] | None:
        rows = self._database.query("SELECT body FROM evidence WHERE id = ?", (identifier,))
        body: Mapping[str, Any] | None = loads(rows[0][0]) if rows else None
        return body

    def latest_evidence(self, task: str, policy_hash: str | None = None) -> str | None:
        where, values = ("", ()) if policy_hash is None else (" AND policy_hash = ?", (policy_hash,))
        rows = self._database.query(
            f"SELECT id FROM evidence WHERE task_id = ?{where} ORDER BY at DESC LIMIT 1",
            (self._query.name_id("task", task), *values),
        )
        return rows[0][0] if rows else None

    def evidences(self, task: str | None, limit: int) -> list[tuple[str, str, str, float]]:
        """(id, task, policy hash, time) of what was proven, newest first."""
        where, values = ("", ()) if task is None else (" WHERE t.name = ?", (task,))
        rows = self._database.query(
            f"SELECT e.id, t.name, e.policy_hash, e.at FROM evidence e JOIN names t ON t.id = e.task_id{where} "
            "ORDER BY e.at DESC LIMIT ?",
            (*values, limit),
        )
        return [(identifier, name, digest, at / 1e6) for identifier, name, digest, at in rows]


def short(ref: PolicyRef | str) -> str:
    """A reference as people read it: the first four digits of the hash."""
    parsed = PolicyRef.parse(ref) if isinstance(ref, str) else ref
    return str(parsed) if parsed.built_in else f"{parsed.family}@{parsed.digest[:4]}"


def _task_id(connection: Connection, task: str) -> int:
    values = ("task", task)
    row = connection.execute("SELECT id FROM names WHERE kind = ? AND name = ?", values).fetchone()
    if row is None:
        row = connection.execute("INSERT INTO names (kind, name) VALUES (?, ?) RETURNING id", values).fetchone()
    return int(row[0])

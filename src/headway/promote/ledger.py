"""The append-only ledger of live policies. The last row that changes it defines `current`; a rollback appends a row.

    candidate   a bundle was learned
    plan        a horizon was registered for the next test
    test        a proof was looked at and charged to the error budget
    shadow      a bundle was learned while a candidate is under test: it is next, and decides nothing
    canary      a candidate decides a share of the traffic, also in the steps of its promotion (`headway.promote.ramp`)
    experiment  a candidate decides a share of the traffic until its test ends; or that ended
    promote     a policy became current, on evidence (or with the gate off, which is recorded)
    rollback    an earlier policy, or the built-in baseline, became current again
    retire      a candidate was set aside
    snapshot    an online policy published its state
    deletion    rows of the task were deleted: how many
    name        somebody named a policy: `why` is the name
    alarm       outcomes changed: where, since when, from what to what; or the end of all open alarms, and why

Each row names `expects`, the current policy at the time of the decision: if it changed since, the row is refused
(`stale_evidence`). One transaction per change; UNIQUE(task, n) prevents a lost update.

Every query except `entries` and `states` reads a fixed number of rows by an index, however long the ledger is:

    ledger.head("route")                   # the number of the last row; cheap enough to poll
    heads = ledger.heads("route")          # current, canary, plan, newest candidate and alarm in one read
    entry = ledger.append(Entry(…, expects=heads.expects))
    heads = heads.after(entry)             # the state after the change, without a second read
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.nouns import PolicyRef, errors
from headway.observe import DELETIONS, Connection, Database, Query, dumps, loads, microseconds
from headway.promote.entry import Entry, EntryKind, Heads, State
from headway.promote.last_rows import (
    CHANGES,
    HEADS,
    HEADS_TASKS,
    LAST_CHANGE,
    LIVE,
    NUMBERS,
    OF_TASK,
    ON_A_SHARE,
    UNPROVEN,
    entry_of,
    heads_of,
    last_of,
)

__all__ = ["Entry", "EntryKind", "Heads", "Ledger", "State", "short"]

_STATES: Mapping[EntryKind, State] = {
    "candidate": "candidate", "shadow": "shadow", "canary": "canary", "retire": "retired",
    "promote": "current", "rollback": "current", "snapshot": "current",
}  # fmt: skip
_ASIDE = frozenset({"plan", "test", "experiment", "alarm", "deletion", "name"})  # no change of a policy's state


class Ledger:
    """The ledger of all tasks of a project."""

    def __init__(self, database: Database, query: Query) -> None:
        self._database = database
        self._query = query

    def append(self, entry: Entry) -> Entry:
        """Append one change; refused if `entry.expects` is not the current policy."""
        with self._database.transaction() as connection:
            return self.write(connection, entry)

    def write(self, connection: Connection, entry: Entry) -> Entry:
        """The same inside the caller's transaction; returns the entry with its numbers."""
        task_id = _task_id(connection, entry.task)
        starts = entry.kind in ON_A_SHARE and entry.share > 0
        if starts or entry.kind in (*LIVE, "canary"):
            _check_expected(connection, task_id, entry)
        if starts:
            _check_free(heads_of(entry.task, connection.execute(HEADS, (task_id,) * HEADS_TASKS).fetchall()), entry)
        row = connection.execute(f"{NUMBERS} ORDER BY n DESC LIMIT 1", (task_id,)).fetchone()
        last = int(row[0]) if row else 0
        detail, at = dumps(entry.detail), microseconds(entry.at)
        row = connection.execute(
            "INSERT INTO ledger "
            "(task_id, n, kind, policy, policy_hash, expects, who, why, evidence_id, detail, at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq",
            (task_id, last + 1, entry.kind, entry.policy, entry.policy_hash, entry.expects, entry.who, entry.why,
             entry.evidence_id, detail, at),
        ).fetchone()  # fmt: skip
        return replace(entry, detail=loads(detail), at=at / 1e6, n=last + 1, seq=int(row[0]))

    def charge(self, entry: Entry) -> Entry:
        """Append a test with its number `k` and the promotions that stand; once per candidate, opponent and plan."""
        with self._database.transaction() as connection:
            known = self.charged(entry.task, entry.policy_hash, entry.detail["against"], entry.detail["plan"])
            if known is not None:
                return known
            numbers = {"k": len(self.tests(entry.task)) + 1, "promotions": self.promotions(entry.task)}
            return self.write(connection, replace(entry, detail={**entry.detail, **numbers}))

    # -- the state of a task

    def head(self, task: str) -> int:
        """The number of the last row of a task; 0 if there is none. It grows with every change, so it can be polled."""
        rows = self._database.query(
            "SELECT seq FROM ledger WHERE task_id = ? ORDER BY n DESC LIMIT 1", (self._task_id(task),)
        )
        return int(rows[0][0]) if rows else 0

    def heads(self, task: str) -> Heads:
        """Current policy, canary, experiment, open plan, alarm and newest candidate, all as of one moment."""
        return heads_of(task, self._database.query(HEADS, (self._task_id(task),) * HEADS_TASKS))

    def current(self, task: str) -> Entry | None:
        """The row that made the current policy current; None if it is the built-in baseline."""
        return self.last(task, *LIVE)

    def canary(self, task: str) -> Entry | None:
        """The active canary, if any: the last canary row unless a later change ended it."""
        return self.heads(task).canary

    def experiment(self, task: str) -> Entry | None:
        """The start of the running experiment, if any."""
        return self.heads(task).experiment

    def plan(self, task: str) -> Entry | None:
        """The open registered test: the last plan since the last promotion or rollback."""
        return self.heads(task).plan

    def last(self, task: str, *kinds: EntryKind) -> Entry | None:
        """The last row of any of these kinds."""
        sql = f"{OF_TASK} AND n = (SELECT MAX(n) FROM ({last_of(kinds)}) AS lasts)"
        return next(iter(self._read(task, sql, (self._task_id(task),) * (len(kinds) + 1))), None)

    def previous(self, task: str) -> Entry | None:
        """The policy before the last promotion: the target of `rollback`."""
        change = self.last(task, *CHANGES)
        if change is None:
            return None
        task_id = self._task_id(task)
        before: list[Entry] = []
        for kind in CHANGES:  # a built-in policy keeps its name when its definition, and with it the hash, changes
            sql = f"{OF_TASK} AND kind = ? AND policy_hash <> ? AND policy <> ? ORDER BY n DESC LIMIT 1"
            before += self._read(task, sql, (task_id, kind, change.policy_hash, change.policy))
        return max(before, key=lambda entry: entry.n, default=None)

    def challengers(self, task: str) -> list[Entry]:
        """Candidates since the last promotion or rollback, oldest first."""
        sql = f"{OF_TASK} AND kind = 'candidate' AND n > {LAST_CHANGE} ORDER BY n"
        first: dict[str, Entry] = {}
        for entry in self._read(task, sql, (self._task_id(task),) * (1 + len(CHANGES))):
            first.setdefault(entry.policy_hash, entry)
        return list(first.values())

    def tests(self, task: str) -> list[Entry]:
        """All tests that were charged to the error budget, oldest first."""
        return self.entries(task, "test")

    def tested(self, task: str, policy_hash: str) -> Entry | None:
        """The last test of a policy that was charged."""
        sql = f"{OF_TASK} AND policy_hash = ? AND kind = 'test' ORDER BY n DESC LIMIT 1"
        return next(iter(self._read(task, sql, (self._task_id(task), policy_hash))), None)

    def charged(self, task: str, policy_hash: str, against: str, plan: str) -> Entry | None:
        """The charge of this test, if there is one since the last promotion or rollback."""
        change = self.last(task, *CHANGES)
        for test in self.tests(task):
            what = (test.policy_hash, test.detail["against"], test.detail["plan"])
            if (change is None or test.n > change.n) and what == (policy_hash, against, plan):
                return test
        return None

    def promotions(self, task: str) -> int:
        """The policies that were promoted on evidence and not taken back."""
        standing: set[str] = set()
        current = ""
        for entry in self.entries(task, *CHANGES):
            if entry.kind == "rollback":
                standing.discard(current)
            elif entry.evidence_id is not None:
                standing.add(entry.policy_hash)
            current = entry.policy_hash
        return len(standing)

    def state(self, task: str, policy_hash: str) -> State | None:
        """The state of one policy of the task; None if the ledger does not have it. Reads only that policy's rows."""
        task_id = self._task_id(task)
        last: dict[EntryKind, int] = {
            kind: n
            for kind, n in self._database.query(
                "SELECT kind, MAX(n) FROM ledger WHERE task_id = ? AND policy_hash = ? GROUP BY kind",
                (task_id, policy_hash),
            )
            if kind not in _ASIDE
        }
        if not last:
            return None
        shadowed = last.get("shadow", 0)  # what came before it says nothing any more
        since: dict[EntryKind, int] = {kind: n for kind, n in last.items() if kind != "candidate" and n >= shadowed}
        newest: EntryKind = max(since, key=since.__getitem__, default="candidate")
        if newest == "shadow" and last.get("candidate", 0) > shadowed:
            newest = "candidate"  # its turn has come
        was_live = max((last[kind] for kind in LIVE if kind in last), default=0)
        if was_live and self._replaced_at(task_id, was_live) > last[newest]:
            return "retired"
        return _STATES[newest]

    def _replaced_at(self, task_id: int, n: int) -> int:
        """The first row after `n` that made another policy current; 0 if there is none."""
        sql = " UNION ALL ".join(
            f"SELECT ({NUMBERS} AND kind = '{kind}' AND n > ? ORDER BY n LIMIT 1) AS n" for kind in LIVE
        )
        rows = self._database.query(f"SELECT MIN(n) FROM ({sql}) AS later", (task_id, n) * len(LIVE))
        return int(rows[0][0] or 0)

    def first(self, task: str, policy_hash: str) -> Entry | None:
        """The row with which a policy entered the ledger: a candidate or shadow that was learned, or a snapshot."""
        sql = f"{OF_TASK} AND policy_hash = ? AND kind IN ('candidate', 'shadow', 'snapshot') ORDER BY n LIMIT 1"
        return next(iter(self._read(task, sql, (self._task_id(task), policy_hash))), None)

    def snapshot_parents(self, task: str) -> dict[str, str]:
        """The hash of every snapshot of the task, with the hash of the policy that it continued."""
        sql = "SELECT policy_hash, expects FROM ledger WHERE task_id = ? AND kind = 'snapshot' ORDER BY n"
        return dict(self._database.query(sql, (self._task_id(task),)))

    def snapshots(self, task: str, *, before: int | None = None, until: float | None = None, limit: int) -> list[Entry]:
        """Snapshot rows, newest first: of those before the row `before` and older than `until`, the last `limit`."""
        sql, values = f"{OF_TASK} AND kind = 'snapshot'", [self._task_id(task)]
        if before is not None:
            sql, values = f"{sql} AND n < ?", [*values, before]
        if until is not None:
            sql, values = f"{sql} AND at < ?", [*values, microseconds(until)]
        return self._read(task, f"{sql} ORDER BY n DESC LIMIT ?", (*values, limit))

    def named_beyond_snapshots(self, task: str, policy_hash: str) -> bool:
        """Whether a row of another kind than `snapshot` names the policy: promoted, tested or retired."""
        rows = self._database.query(
            "SELECT 1 FROM ledger WHERE task_id = ? AND policy_hash = ? AND kind <> 'snapshot' LIMIT 1",
            (self._task_id(task), policy_hash),
        )
        return bool(rows)

    def unproven(self, task: str, *, until: float) -> list[tuple[str, str]]:
        """Reference and hash of candidates older than `until` that no other row and no evidence names; newest first."""
        return self._database.query(UNPROVEN, (self._task_id(task), microseconds(until)))

    # -- all of it

    def entries(self, task: str, *kinds: EntryKind, after: int = 0) -> list[Entry]:
        """The rows of a task, oldest first; of these kinds only, if given. Reads all of them: for lists."""
        only = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        sql = f"{OF_TASK}{only} AND seq > ? ORDER BY n"
        return self._read(task, sql, (self._task_id(task), *kinds, after))

    def states(self, task: str) -> dict[str, State]:
        """The state of every policy of the task, by hash. Reads the whole ledger: for lists."""
        states: dict[str, State] = {}
        current = ""
        for entry in self.entries(task):
            match entry.kind:
                case "candidate":
                    if states.get(entry.policy_hash, "shadow") == "shadow":
                        states[entry.policy_hash] = "candidate"
                case "shadow" | "canary":
                    states[entry.policy_hash] = entry.kind
                case "retire":
                    states[entry.policy_hash] = "retired"
                case "promote" | "rollback" | "snapshot":
                    if current:
                        states[current] = "retired"
                    states[entry.policy_hash] = "current"
                    current = entry.policy_hash
                case "plan" | "test" | "experiment" | "alarm" | "deletion" | "name":
                    pass
        return states

    def rewritten(self, digest: str) -> set[str]:
        """The hashes that a bundle has since deletions removed words from its header."""
        details = self._database.query("SELECT detail FROM ledger WHERE kind = 'deletion'")
        headers = (loads(detail).get("headers", {}) for (detail,) in details)
        return {known[digest] for known in headers if digest in known}

    # -- evidence

    def keep_config(self, digest: str, body: Mapping[str, Any]) -> None:
        """Store the configuration that an evidence was made under, under its hash."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO configs (hash, body) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", (digest, dumps(body))
            )

    def config(self, digest: str) -> Mapping[str, Any] | None:
        """A configuration by its hash, if it is stored."""
        return self._body("SELECT body FROM configs WHERE hash = ?", digest)

    def erased(self) -> int:
        """The number of deletions so far."""
        return int(self._database.query(DELETIONS)[0][0])

    def keep_evidence(
        self, name: str, task: str, policy_hash: str, body: Mapping[str, Any], at: float, erased: int | None = None
    ) -> None:
        """Store an evidence; Conflict if `erased` is no longer the number of deletions: it may quote deleted rows."""
        with self._database.transaction() as connection:
            if erased is not None and connection.execute(DELETIONS).fetchone()[0] != erased:
                raise errors.Conflict(
                    f"Rows were deleted while the proof of {task!r} was computed.",
                    code="stale_evidence",
                    hint=f"Prove it again: headway prove {task}",
                )
            connection.execute(
                "INSERT INTO evidence (id, task_id, policy_hash, at, body) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO NOTHING",
                (name, _task_id(connection, task), policy_hash, microseconds(at), dumps(body)),
            )

    def evidence(self, identifier: str) -> Mapping[str, Any] | None:
        return self._body("SELECT body FROM evidence WHERE id = ?", identifier)

    def latest_evidence(self, task: str, policy_hash: str | None = None, *, since: float = 0.0) -> str | None:
        where, values = ("", ()) if policy_hash is None else (" AND policy_hash = ?", (policy_hash,))
        rows = self._database.query(
            f"SELECT id FROM evidence WHERE task_id = ?{where} AND at > ? ORDER BY at DESC LIMIT 1",
            (self._task_id(task), *values, microseconds(since)),
        )
        return rows[0][0] if rows else None

    def evidences(self, task: str | None, limit: int) -> list[tuple[str, str, str, float]]:
        """(id, task, policy hash, time) of stored evidence, newest first."""
        where, values = ("", ()) if task is None else (" WHERE t.name = ?", (task,))
        rows = self._database.query(
            f"SELECT e.id, t.name, e.policy_hash, e.at FROM evidence e JOIN names t ON t.id = e.task_id{where} "
            "ORDER BY e.at DESC LIMIT ?",
            (*values, limit),
        )
        return [(identifier, name, digest, at / 1e6) for identifier, name, digest, at in rows]

    def _body(self, sql: str, key: str) -> Mapping[str, Any] | None:
        rows = self._database.query(sql, (key,))
        body: Mapping[str, Any] | None = loads(rows[0][0]) if rows else None
        return body

    def _task_id(self, task: str) -> int:
        return self._query.name_id("task", task)

    def _read(self, task: str, sql: str, values: Sequence[Any]) -> list[Entry]:
        return [entry_of(task, row) for row in self._database.query(sql, values)]


def short(ref: PolicyRef | str) -> str:
    """A reference for display, with the first four digits of the hash."""
    parsed = PolicyRef.parse(ref) if isinstance(ref, str) else ref
    return str(parsed) if parsed.built_in else f"{parsed.family}@{parsed.digest[:4]}"


def _check_expected(connection: Connection, task_id: int, entry: Entry) -> None:
    """Raise Conflict if the current policy is not the one that the change expects."""
    row = connection.execute(
        "SELECT policy, policy_hash FROM ledger WHERE task_id = ? "
        f"AND n = (SELECT MAX(n) FROM ({last_of(LIVE)}) AS lasts)",
        (task_id,) * (1 + len(LIVE)),
    ).fetchone()
    current = row[1] if row else ""
    if current != entry.expects:
        name = row[0] if row else "the built-in baseline"
        raise errors.Conflict(
            f"{name} became the current policy of {entry.task!r} in the meantime.",
            code="stale_evidence",
            hint=f"Prove it against the policy that is current now: headway prove {entry.task}",
        )


def _check_free(heads: Heads, entry: Entry) -> None:
    """Raise Conflict if another policy acts on a share already; a canary may change its own share or policy."""
    canary, experiment = heads.canary, heads.experiment
    if experiment is not None:
        raise errors.Conflict(
            f"An experiment with {experiment.policy} is running on {entry.task!r}.",
            code="experiment_running",
            hint=f"Wait for its verdict, or end it: headway experiment stop {entry.task}",
        )
    if canary is not None and entry.kind == "experiment":
        raise errors.Conflict(
            f"{canary.policy} decides on a share of {entry.task!r} as a canary.",
            code="canary_running",
            hint=f"End it first: headway promote {entry.task} --policy {canary.policy} --canary 0",
        )


def _task_id(connection: Connection, task: str) -> int:
    values = ("task", task)
    row = connection.execute("SELECT id FROM names WHERE kind = ? AND name = ?", values).fetchone()
    if row is None:
        row = connection.execute("INSERT INTO names (kind, name) VALUES (?, ?) RETURNING id", values).fetchone()
    return int(row[0])

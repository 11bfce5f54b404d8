"""The last rows of a task's ledger: SQL with one index lookup per kind, however long the ledger is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from headway.observe import Row, loads
from headway.promote.entry import Entry, EntryKind, Heads

_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
CHANGES: tuple[EntryKind, ...] = ("promote", "rollback")  # these end open tests, the canary and the experiment
LIVE: tuple[EntryKind, ...] = (*CHANGES, "snapshot")  # these define the current policy
_COLUMNS = "kind, policy, policy_hash, expects, who, why, evidence_id, detail, at, n, seq"
OF_TASK = f"SELECT {_COLUMNS} FROM ledger WHERE task_id = ?"
NUMBERS = "SELECT n FROM ledger WHERE task_id = ?"


def last_of(kinds: Sequence[EntryKind]) -> str:
    """SQL for the number of the last row of each kind: one index lookup per kind. Binds the task each time.

    Not MAX(n): PostgreSQL without table statistics would read all rows of the kind.
    """
    return " UNION ALL ".join(f"SELECT ({NUMBERS} AND kind = '{kind}' ORDER BY n DESC LIMIT 1) AS n" for kind in kinds)


LAST_CHANGE = f"(SELECT COALESCE(MAX(n), 0) FROM ({last_of(CHANGES)}) AS changes)"
ON_A_SHARE: tuple[EntryKind, ...] = ("canary", "experiment")  # at most one of them is active


def _retired(kind: EntryKind) -> str:
    """SQL for the number of the row that retired the policy of the last row of a kind. Binds the task twice."""
    return (
        f"SELECT ({NUMBERS} AND kind = 'retire' AND policy_hash = ("
        f"SELECT policy_hash FROM ledger WHERE task_id = ? AND kind = '{kind}' ORDER BY n DESC LIMIT 1) "
        "ORDER BY n DESC LIMIT 1) AS n"
    )


# The last row of every kind, and what retired the last canary and experiment: everything that `Heads` needs.
HEADS = f"{OF_TASK} AND n IN ({' UNION ALL '.join((last_of(_KINDS), *map(_retired, ON_A_SHARE)))}) ORDER BY n"
HEADS_TASKS = 1 + len(_KINDS) + 2 * len(ON_A_SHARE)  # how often it binds the task


# Candidates before a time that nothing but their own rows names. Binds the task and the time.
UNPROVEN = (
    "SELECT policy, policy_hash FROM ledger l WHERE task_id = ? AND kind = 'candidate' AND at < ? "
    "AND NOT EXISTS (SELECT 1 FROM ledger o WHERE o.task_id = l.task_id AND o.policy_hash = l.policy_hash "
    "AND o.kind <> 'candidate') "
    "AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.task_id = l.task_id AND e.policy_hash = l.policy_hash) "
    "ORDER BY n DESC"
)


def entry_of(task: str, row: Row) -> Entry:
    """A row of `OF_TASK` as a record."""
    kind, policy, digest, expects, who, why, evidence_id, detail, at, n, seq = row
    return Entry(
        task=task,
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


def heads_of(task: str, rows: Sequence[Row]) -> Heads:
    """The state of a task from the rows of `HEADS`."""
    heads = Heads()
    for row in rows:
        heads = heads.after(entry_of(task, row))
    return heads

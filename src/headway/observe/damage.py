"""Stored values that no Headway has written: of another type, out of range, not JSON, about rows that are not there.

    with_reason = damaged("The decision in row 7 of the store", error)   # for one value, when reading it fails
    wrong_values(database)                                               # all tables of a SQLite store, as sentences

SQLite stores any type in any column, so a damaged or edited file can hold anything. Not covered: a wrong value of the
right type and range, such as another reward.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from headway.nouns import errors

if TYPE_CHECKING:
    from headway.observe.database import Database


# What reading a value that is not ours raises.
UNREADABLE = (
    msgspec.MsgspecError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError,
    ZeroDivisionError, struct.error,
)  # fmt: skip
_MOST = 5  # problems that are listed
_ALLOWED = {
    "INTEGER": "'integer', 'null'",
    "REAL": "'real', 'integer', 'null'",
    "TEXT": "'text', 'null'",
    "BLOB": "'blob', 'null'",
}
_LATEST = 253_402_300_799_000_000  # the year 9999, in microseconds
_CANDIDATE = "CASE type WHEN 'text' THEN 0 WHEN 'array' THEN COALESCE(json_type(value, '$[0]') <> 'text', 1) ELSE 1 END"
_SIZE = "(SELECT json_array_length(c.body) FROM candidate_sets c WHERE c.id = candidate_set_id)"


def _no(kind: str, column: str) -> str:
    return f"CASE WHEN json_valid({column}) THEN json_type({column}) <> '{kind}' ELSE 1 END"


# In this order: a later condition relies on the earlier ones.
_CONDITIONS = (
    ("candidate_sets", "body is not a list", _no("array", "body")),
    ("candidate_sets", "body holds what is no candidate", f"EXISTS (SELECT 1 FROM json_each(body) WHERE {_CANDIDATE})"),
    ("configs", "body is not a JSON object", _no("object", "body")),
    ("ledger", "detail is not a JSON object", _no("object", "detail")),
    ("ledger", "at is no time", f"at NOT BETWEEN 0 AND {_LATEST}"),
    ("evidence", "body is not a JSON object", _no("object", "body")),
    ("signals", "at is no time", f"at NOT BETWEEN 0 AND {_LATEST}"),
    ("settled", "status is unknown", "status NOT BETWEEN 0 AND 3"),
    ("decisions", "state is not a JSON object", _no("object", "state")),
    ("decisions", "at is no time", f"at NOT BETWEEN 0 AND {_LATEST}"),
    ("decisions", "source is unknown", "source NOT BETWEEN 0 AND 3"),
    ("decisions", "step is negative", "step < 0"),
    ("decisions", "task_id names nothing", "task_id NOT IN (SELECT id FROM names)"),
    ("decisions", "role_id names nothing", "role_id NOT IN (SELECT id FROM names)"),
    ("decisions", "config_id names nothing", "config_id NOT IN (SELECT id FROM configs)"),
    ("decisions", "policy_id names nothing", "policy_id NOT IN (SELECT id FROM policies)"),
    ("decisions", "candidate_set_id names nothing", "candidate_set_id NOT IN (SELECT id FROM candidate_sets)"),
    ("decisions", "action is no candidate", f"action NOT BETWEEN 0 AND {_SIZE} - 1"),
    ("decisions", "probabilities are not one per candidate", f"length(probabilities) NOT IN (0, 8 * {_SIZE})"),
    ("decisions", "propensity is no probability", "propensity NOT BETWEEN 0 AND 1"),
)


def damaged(what: str, error: Exception | str) -> errors.Damaged:
    """The error for a stored value that no Headway has written."""
    return errors.Damaged(
        f"{what} is damaged: {str(error).rstrip('.') or 'it has another type than it must have'}.",
        code="store_damaged",
        hint="Run `headway doctor`; restore the store from a backup, or delete the row with `headway data delete`.",
    )


def wrong_values(database: Database) -> list[str]:
    """The first few wrong values of a SQLite store. Reads everything."""
    found = list(_wrong_types(database))
    if found:  # the other conditions rely on the types
        return found[:_MOST]
    for table, problem, condition in _CONDITIONS:
        found += [f"{table} row {row}: {problem}" for row in _rows(database, table, condition)]
        if found:
            break
    return found[:_MOST]


def _wrong_types(database: Database) -> Iterator[str]:
    for table in database.tables():
        for _, column, declared, *_ in database.query(f"PRAGMA table_info({table})"):
            allowed = _ALLOWED.get(declared)
            if allowed is not None:
                for row in _rows(database, table, f"typeof({column}) NOT IN ({allowed})"):
                    yield f"{table} row {row}: {column} is not {declared}"


def _rows(database: Database, table: str, condition: str) -> list[int]:
    rows = database.query(f"SELECT rowid FROM {table} WHERE {condition} LIMIT {_MOST}")
    return [row[0] for row in rows]

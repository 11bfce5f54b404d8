"""One store into another, whichever engines hold them: row for row, numbers included.

    copied = copy(open_database(Path("headway.db")), open_database("postgresql://…"), progress=report)
    copied.rows["decisions"]

Streams pages in the order of each table's key; each page is one transaction of the target, so that a copy that was
stopped goes on where it was, and a second copy brings over only what is new or has changed. Nothing is written unless
all that the target holds already is the source's. At the end both are read once more and their hashes compared.

Not covered: writing to the source meanwhile (the last step notices), and files beside the store (`.headway/policies`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from headway.nouns.errors import Conflict
from headway.nouns.protocols import Progress
from headway.observe.database import Connection, Database, Row, Table

__all__ = ["Copied", "copy"]

_PAGE = 2000
_PAGE_BYTES = 8 << 20
_HEAVY: Mapping[str, str] = {"details": "data"}  # tables whose pages end by bytes too, and the column that weighs
# Beside the key: what two rows must have in common to be the same row at different times. Everything else may change.
_SAME: Mapping[str, tuple[str, ...]] = {
    "candidate_sets": ("hash",),
    "configs": ("hash",),
    "decisions": ("id",),
    "keys": ("name",),
    "ledger": ("task_id", "n", "policy_hash"),
    "names": ("kind", "name"),
    "policies": ("ref", "hash"),
    "settled": ("task_id", "decision"),
    "signals": ("subject", "name_id", "rater_id", "key"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What both stores hold now."""

    rows: Mapping[str, int]  # by table
    written: int  # rows that the target did not have, or had differently
    sha256: Mapping[str, str]  # of each table's rows in their order


def copy(source: Database, target: Database, *, progress: Progress | None = None, size: int = _PAGE) -> Copied:
    """Make the target hold what the source holds; a Conflict, with nothing written, if it holds anything else."""
    if source.name == target.name and source.engine == target.engine == "sqlite":
        raise Conflict(f"{source.name} is both ends of the copy.", code="copy_onto_itself")
    there = target.tables()
    tables = {name: table for name, table in source.tables().items() if name in there}  # others are somebody else's
    for name, table in tables.items():
        _check_same(source, target, name, table, size)
    total = sum(int(source.query(f"SELECT COUNT(*) FROM {name}")[0][0]) for name in tables)
    done = written = 0
    for name, table in tables.items():
        for count, new in _copy_table(source, target, name, table, size):
            done += count
            written += new
            if progress is not None:
                progress("copy", done, total)
    rows: dict[str, int] = {}
    digests: dict[str, str] = {}
    done = 0
    for name, table in tables.items():
        rows[name], digests[name] = _digest(source, name, table, size)
        there_now = _digest(target, name, table, size)
        if there_now != (rows[name], digests[name]):
            raise Conflict(
                f"{name} differs: {rows[name]:,} rows here, {there_now[0]:,} there.",
                code="copy_differs",
                hint="Something was written meanwhile. Stop what writes, then copy again: it goes on from here.",
            )
        done += rows[name]
        if progress is not None:
            progress("verify", done, total)
    return Copied(rows=rows, written=written, sha256=digests)


def _check_same(source: Database, target: Database, name: str, table: Table, size: int) -> None:
    """Whether each row of the target is a row of the source, as it is or as it was."""
    same = [table.columns.index(column) for column in (*table.key, *_SAME.get(name, ()))]
    for low, high, rows in _pages(target, name, table, size):
        there = {tuple(row[place] for place in same) for row in _between(source, name, table, low, high)}
        for row in rows:
            if tuple(row[place] for place in same) not in there:
                raise Conflict(
                    f"{target.name} holds something else already: {name} {_key(table, row)!r} is not in {source.name}.",
                    code="copy_not_empty",
                    hint="Copy into an empty store. Nothing was written.",
                )


def _copy_table(source: Database, target: Database, name: str, table: Table, size: int) -> Iterator[tuple[int, int]]:
    """(rows looked at, rows written) per page."""
    for low, high, rows in _pages(source, name, table, size):
        with target.transaction() as connection:
            known = {_key(table, row): row for row in _among(connection, name, table, low, high)}
            new = [row for row in rows if known.get(_key(table, row)) != row]
            if new:
                for row in new:
                    if _key(table, row) in known:
                        where = " AND ".join(f"{column} = ?" for column in table.key)
                        connection.execute(f"DELETE FROM {name} WHERE {where}", _key(table, row))
                target.fill(connection, name, table.columns, new)
        yield len(rows), len(new)
    if table.numbered:  # numbers that were given out once are never given out again, here or there
        with source.transaction() as connection:
            last = source.counter(connection, name)
        with target.transaction() as connection:
            if target.counter(connection, name) != last:
                target.advance(connection, name, last)


def _digest(database: Database, name: str, table: Table, size: int) -> tuple[int, str]:
    """How many rows there are, and a hash of all of them."""
    count, digest = 0, hashlib.sha256()
    for _, _, rows in _pages(database, name, table, size):
        count += len(rows)
        for row in rows:
            # -0.0 is 0.0: SQLite does not keep the sign
            digest.update(repr([value + 0.0 if type(value) is float else value for value in row]).encode())
    return count, digest.hexdigest()


def _pages(
    database: Database, name: str, table: Table, size: int
) -> Iterator[tuple[tuple[Any, ...] | None, tuple[Any, ...], list[Row]]]:
    """Rows in the order of the key, with the key before them and the last of theirs."""
    low: tuple[Any, ...] | None = None
    columns, keys = ", ".join(table.columns), ", ".join(table.key)
    while True:
        where, values = ("", ()) if low is None else (f" WHERE ({keys}) > ({_marks(table.key)})", low)
        count = size
        if name in _HEAVY:
            sizes = f"SELECT LENGTH({_HEAVY[name]}) FROM {name}{where} ORDER BY {keys} LIMIT ?"
            total = list(accumulate(row[0] for row in database.query(sizes, (*values, size))))
            count = max(1, bisect_right(total, _PAGE_BYTES))
        rows = database.query(f"SELECT {columns} FROM {name}{where} ORDER BY {keys} LIMIT ?", (*values, count))
        if not rows:
            return
        high = _key(table, rows[-1])
        yield low, high, rows
        if len(rows) < count:
            return
        low = high


def _between(
    database: Database, name: str, table: Table, low: tuple[Any, ...] | None, high: tuple[Any, ...]
) -> list[Row]:
    return database.query(*_range(name, table, low, high))


def _among(
    connection: Connection, name: str, table: Table, low: tuple[Any, ...] | None, high: tuple[Any, ...]
) -> list[Row]:
    return connection.execute(*_range(name, table, low, high)).fetchall()


def _range(name: str, table: Table, low: tuple[Any, ...] | None, high: tuple[Any, ...]) -> tuple[str, Sequence[Any]]:
    columns, keys = ", ".join(table.columns), ", ".join(table.key)
    sql, values = f"SELECT {columns} FROM {name} WHERE ({keys}) <= ({_marks(table.key)})", high
    if low is not None:
        sql, values = f"{sql} AND ({keys}) > ({_marks(table.key)})", (*high, *low)
    return sql, values


def _key(table: Table, row: Row) -> tuple[Any, ...]:
    return tuple(row[table.columns.index(column)] for column in table.key)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))

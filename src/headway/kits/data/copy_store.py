"""Copy one store into another, between any two engines: row by row, including the row numbers.

    copied = copy(open_database(Path("headway.db")), open_database("postgresql://…"), progress=report)
    copied.rows["decisions"]

Streams pages in key order; each page is one transaction of the target, so an interrupted copy resumes where it stopped,
and a second copy transfers only new and changed rows. Nothing is written if the target holds a row that is not in the
source. At the end both stores are read again and their hashes compared.

Not covered: writes to the source during the copy (the last step detects them), and files next to the store
(`.headway/policies`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from headway.nouns import Progress, errors
from headway.observe import Database, Row, StoreTable

_PAGE = 2000
_PAGE_BYTES = 8 << 20
_LARGE_COLUMN: Mapping[str, str] = {"details": "data"}  # tables whose pages are also limited by bytes
# Two rows with the same key are versions of one row if they also agree in these columns. Other columns may change.
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
    """The content of both stores after the copy."""

    rows: Mapping[str, int]  # by table
    written: int  # rows that were new or changed
    sha256: Mapping[str, str]  # of each table's rows in key order


def copy(source: Database, target: Database, *, progress: Progress | None = None, size: int = _PAGE) -> Copied:
    """Copy the source into the target; raises Conflict and writes nothing if the target holds other rows."""
    check_apart(source, target)
    in_target = target.tables()
    tables = {
        name: table for name, table in source.tables().items() if name in in_target and not table.derived
    }  # skip tables of other programs, and totals
    for name, table in tables.items():
        _check_same(source, target, name, table, size)
    with target.transaction() as connection:
        for name, table in in_target.items():
            if table.derived:
                connection.execute(f"DELETE FROM {name}")
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
        target_digest = _digest(target, name, table, size)
        if target_digest != (rows[name], digests[name]):
            raise errors.Conflict(
                f"{name} differs: {rows[name]:,} rows in the source, {target_digest[0]:,} in the target.",
                code="copy_differs",
                hint="A store was changed during the copy. Stop its writers and copy again; the copy resumes.",
            )
        done += rows[name]
        if progress is not None:
            progress("verify", done, total)
    return Copied(rows=rows, written=written, sha256=digests)


def check_apart(source: Database, target: Database) -> None:
    """Raise Conflict if both are one store; before they are locked: the second lock would wait for the first."""
    files = source.engine == target.engine == "sqlite"
    if Path(source.name).samefile(target.name) if files else source.name == target.name:
        raise errors.Conflict(
            f"{source.name} is both the source and the target.",
            code="copy_onto_itself",
            hint="Name another file, folder or URL as the target. Nothing was written.",
        )


def _check_same(source: Database, target: Database, name: str, table: StoreTable, size: int) -> None:
    """Raise Conflict unless every row of the target is in the source, in its present or an earlier version."""
    same = [table.columns.index(column) for column in (*table.key, *_SAME.get(name, ()))]
    for low, high, rows in _pages(target, name, table, size):
        there = {tuple(row[place] for place in same) for row in source.query(*_range(name, table, low, high))}
        for row in rows:
            if tuple(row[place] for place in same) not in there:
                raise errors.Conflict(
                    f"{target.name} already holds other data: {name} {_key(table, row)!r} is not in {source.name}.",
                    code="copy_not_empty",
                    hint="Copy into an empty store. Nothing was written.",
                )


def _copy_table(
    source: Database, target: Database, name: str, table: StoreTable, size: int
) -> Iterator[tuple[int, int]]:
    """(rows read, rows written) per page."""
    for low, high, rows in _pages(source, name, table, size):
        with target.transaction() as connection:
            known = {_key(table, row): row for row in connection.execute(*_range(name, table, low, high)).fetchall()}
            new = [row for row in rows if known.get(_key(table, row)) != row]
            if new:
                for row in new:
                    if _key(table, row) in known:
                        where = " AND ".join(f"{column} = ?" for column in table.key)
                        connection.execute(f"DELETE FROM {name} WHERE {where}", _key(table, row))
                target.fill(connection, name, table.columns, new)
        yield len(rows), len(new)
    if table.numbered:  # a number that was used once is never used again, in either store
        with source.transaction() as connection:
            last = source.counter(connection, name)
        with target.transaction() as connection:
            if target.counter(connection, name) != last:
                target.advance(connection, name, last)


def _digest(database: Database, name: str, table: StoreTable, size: int) -> tuple[int, str]:
    """The number of rows, and a hash of all of them."""
    count, digest = 0, hashlib.sha256()
    for _, _, rows in _pages(database, name, table, size):
        count += len(rows)
        for row in rows:
            # hash -0.0 as 0.0: SQLite does not store the sign
            digest.update(repr([value + 0.0 if type(value) is float else value for value in row]).encode())
    return count, digest.hexdigest()


def _pages(
    database: Database, name: str, table: StoreTable, size: int
) -> Iterator[tuple[tuple[Any, ...] | None, tuple[Any, ...], list[Row]]]:
    """Pages in key order: (the last key of the previous page, the last key of this page, rows)."""
    low: tuple[Any, ...] | None = None
    columns, keys = ", ".join(table.columns), ", ".join(table.key)
    while True:
        where, values = ("", ()) if low is None else (f" WHERE ({keys}) > ({_marks(table.key)})", low)
        count = size
        if name in _LARGE_COLUMN:
            sizes = f"SELECT LENGTH({_LARGE_COLUMN[name]}) FROM {name}{where} ORDER BY {keys} LIMIT ?"
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


def _range(
    name: str, table: StoreTable, low: tuple[Any, ...] | None, high: tuple[Any, ...]
) -> tuple[str, Sequence[Any]]:
    columns, keys = ", ".join(table.columns), ", ".join(table.key)
    sql, values = f"SELECT {columns} FROM {name} WHERE ({keys}) <= ({_marks(table.key)})", high
    if low is not None:
        sql, values = f"{sql} AND ({keys}) > ({_marks(table.key)})", (*high, *low)
    return sql, values


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _key(table: StoreTable, row: Row) -> tuple[Any, ...]:
    return tuple(row[table.columns.index(column)] for column in table.key)

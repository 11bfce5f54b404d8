"""What every store can do, whichever database holds it: read, write all or nothing, lock, migrate.

    open_database(Path(".headway/headway.db"))                        # SQLite: `sqlite.py`
    open_database("postgresql://headway@db.example.com/headway")      # PostgreSQL: `postgres.py`

SQL elsewhere is written once, for both: `?` marks values, JSON is plain text, RETURNING instead of a last row id, no
scalar MIN and MAX, every selected column grouped or counted. What the two say differently has a method here. On both,
one write transaction runs at a time over all processes and machines, so that numbers become visible in their order.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from headway.nouns.errors import Damaged
from headway.observe.migrations import MIGRATIONS

__all__ = ["Connection", "Cursor", "Database", "Durability", "Engine", "Table", "open_database"]

Durability = Literal["power", "process"]
Engine = Literal["sqlite", "postgresql"]
Row = tuple[Any, ...]
_MIGRATIONS_TABLE = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at {int} NOT NULL)"


class Cursor(Protocol):
    """What a statement gave: the part that both drivers have."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Where statements run inside a write transaction."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, sql: str, values: Iterable[Sequence[Any]], /) -> Cursor: ...


class Table(NamedTuple):
    """A table of the store: its columns in order, and those that make its primary key."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    numbered: bool  # the key is counted up by the database


def open_database(place: Path | str, durability: Durability = "power") -> Database:
    """The store at a path (SQLite) or a URL (PostgreSQL), created and migrated as needed."""
    database: Database
    if isinstance(place, Path):
        from headway.observe.sqlite import SQLite

        database = SQLite(place, durability)
    else:
        from headway.observe.postgres import Postgres

        database = Postgres(place, durability)
    try:
        database.migrate()
    except BaseException:
        database.close()
        raise
    return database


class Database(ABC):
    """One store. Safe to use from threads, and after a fork."""

    engine: ClassVar[Engine]
    name: str  # where it is, for people; never with a password
    _types: ClassVar[Mapping[str, str]]  # what migrations call serial, bytes, int and float

    # -- reading

    @abstractmethod
    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows at once; for small answers."""

    def pages(self, sql: str, values: Sequence[Any], *, after: int, size: int = 5000) -> Iterator[list[Row]]:
        """Keyset pages: `sql` ends in `… > ? ORDER BY … LIMIT ?` and its first column is the key.

        Each page is a read of its own, so that a slow consumer never pins a snapshot.
        """
        while rows := self.query(sql, (*values, after, size)):
            yield rows
            if len(rows) < size:
                return
            after = rows[-1][0]

    @abstractmethod
    def version(self) -> int:
        """Another number whenever something may have been committed since: cheap enough to poll."""

    # -- writing

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """All or nothing, durable on return. Re-entrant use is a bug of ours and fails."""

    @abstractmethod
    def lock(self, name: str, *, shared: bool = False, wait: bool = True) -> AbstractContextManager[bool]:
        """Holds the store's lock of that name, over all who share the store; gives False if it may not wait.

        It ends with its holder, however that ends. Not re-entrant.
        """

    def migrate(self) -> None:
        """Apply the steps that this store has not seen; refuse a store from the future."""
        if self._applied() == {name for name, _ in MIGRATIONS}:
            return
        with self.transaction() as connection:
            for statement in self._statements(_MIGRATIONS_TABLE):
                connection.execute(statement)
            done = {name for (name,) in connection.execute("SELECT name FROM migrations")}
            newer = done - {name for name, _ in MIGRATIONS}
            if newer:
                raise Damaged(
                    f"{self.name} was written by a newer Headway (migration {min(newer)!r}).",
                    code="store_too_new",
                    hint="Upgrade headway, or open another store.",
                )
            for name, script in MIGRATIONS:
                if name not in done:
                    for statement in self._statements(script):
                        connection.execute(statement)
                    connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, int(time.time() * 1e6)))

    def _statements(self, script: str) -> list[str]:
        return [each for each in script.format(**self._types).split(";") if each.strip()]

    def _applied(self) -> set[str]:
        """The migrations that are there already, where a read can tell before a write has to."""
        return set()

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and locks; the next use opens them anew."""

    # -- what the engines say differently

    @abstractmethod
    def whole(self, expression: str) -> str:
        """SQL for a number without its fraction: towards zero."""

    # -- looking after it

    @abstractmethod
    def check(self) -> list[str]:
        """What is wrong with the store; empty when all is well."""

    @abstractmethod
    def server(self) -> str:
        """Which program holds it, with its version."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def purge(self, *, rewrite: bool = True) -> list[str]:
        """Take what was deleted off the disk; what may still hold some of it, in words, for people.

        `rewrite` also gives the space back, which takes as long as copying the store.
        """

    @abstractmethod
    def tables(self) -> dict[str, Table]:
        """Every table of the store by name."""

    @abstractmethod
    def counter(self, connection: Connection, table: str) -> int:
        """The last number that a numbered table gave out."""

    @abstractmethod
    def advance(self, connection: Connection, table: str, number: int) -> None:
        """Let a numbered table go on counting after this number."""

    @abstractmethod
    def fill(self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert many rows as they are, keys included."""

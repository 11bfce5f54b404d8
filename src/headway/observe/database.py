"""The interface of a store on either database: read, write in transactions, lock, migrate.

    open_database(Path(".headway/headway.db"))                        # SQLite: `sqlite.py`
    open_database("postgresql://headway@db.example.com/headway")      # PostgreSQL: the kit `postgres`

SQL in other modules is written once, for both: `?` marks values, JSON is plain text, RETURNING replaces the last row
id, there is no scalar MIN or MAX, and every selected column is grouped or aggregated. Where the dialects differ, this
class has a method. On both, one write transaction runs at a time over all processes and machines, so row numbers
become visible in order.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

from headway.nouns import errors
from headway.observe.migrations import DERIVED, MIGRATIONS

Durability = Literal["power", "process"]
Engine = Literal["sqlite", "postgresql"]
Row = tuple[Any, ...]
Waiting = Callable[[str], None]  # is told why something waits
_T = TypeVar("_T")
_BOUND_VALUES = 500  # per statement
_FIRST_PAGE = 500  # rows
_MIGRATIONS_TABLE = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at {int} NOT NULL)"


class Cursor(Protocol):
    """The result of a statement: the part that both drivers share."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection inside a write transaction."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, sql: str, values: Iterable[Sequence[Any]], /) -> Cursor: ...


class StoreTable(NamedTuple):
    """A table of the store: its columns in order, and its primary key."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    numbered: bool  # the database numbers the rows
    derived: bool = False  # the rows can be computed again from other tables


def placeholders(values: Sequence[object]) -> str:
    """`?, ?, ?`: one per value."""
    return ", ".join("?" * len(values))


def chunks(values: Sequence[_T], size: int = _BOUND_VALUES) -> Iterator[Sequence[_T]]:
    """The values in slices that are small enough to bind in one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


class Database(ABC):
    """One store. Safe to use from threads, and after a fork."""

    engine: ClassVar[Engine]
    name: str  # its location, for messages; never with a password
    _types: ClassVar[Mapping[str, str]]  # the SQL types that migrations call serial, bytes, int and float

    # -- reading

    @abstractmethod
    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows at once; for small results."""

    def query_in(self, sql: str, some: Iterable[Any], values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of `… IN ({}) …` for any number of values; those after them are bound again for every few."""
        for chunk in chunks(list(some)):
            yield from self.query(sql.format(placeholders(chunk)), (*chunk, *values))

    def pages(self, sql: str, values: Sequence[Any], *, after: int, size: int = 5000) -> Iterator[list[Row]]:
        """Keyset pages: `sql` ends in `… > ? ORDER BY … LIMIT ?` and its first column is the key.

        Each page is a separate read, so a slow consumer never holds a snapshot open. The first ones are smaller, for a
        consumer that soon stops.
        """
        most = min(_FIRST_PAGE, size)
        while rows := self.query(sql, (*values, after, most)):
            yield rows
            if len(rows) < most:
                return
            after = rows[-1][0]
            most = min(4 * most, size)

    @abstractmethod
    def version(self) -> int:
        """A number that changes whenever something may have been committed: cheap enough to poll.

        Raises `store_lost` if the store that was opened is gone or something else.
        """

    # -- writing

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """All or nothing, durable on return. Nesting transactions is a bug and fails."""

    @abstractmethod
    def bulk(self) -> AbstractContextManager[None]:
        """Around the writing of very many rows: more memory meanwhile, and statistics for the planner afterwards."""

    @abstractmethod
    def lock(self, name: str, *, shared: bool = False, wait: bool = True) -> AbstractContextManager[bool]:
        """Hold a named lock of the store across all its processes; gives False if taken and `wait` is False.

        The lock is released when its process ends, even by a crash. Not re-entrant.
        """

    def migrate(self, steps: Mapping[str, Callable[[Connection], None]] = MappingProxyType({})) -> None:
        """Apply the migrations that this store lacks; refuse a store that a newer Headway wrote.

        `steps`: what a migration does besides its script.
        """
        if self._applied() == {name for name, _ in MIGRATIONS}:
            return
        with self.transaction() as connection:
            for statement in self._statements(_MIGRATIONS_TABLE):
                connection.execute(statement)
            done = {name for (name,) in connection.execute("SELECT name FROM migrations")}
            newer = done - {name for name, _ in MIGRATIONS}
            if newer:
                raise errors.Damaged(
                    f"{self.name} was written by a newer Headway (migration {min(newer)!r}).",
                    code="store_too_new",
                    hint="Upgrade headway, or open another store.",
                )
            for name, script in MIGRATIONS:
                if name not in done:
                    for statement in self._statements(script):
                        connection.execute(statement)
                    if name in steps:
                        steps[name](connection)
                    connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, int(time.time() * 1e6)))

    def _statements(self, script: str) -> list[str]:
        return [statement for statement in script.format(**self._types).split(";") if statement.strip()]

    def _applied(self) -> set[str]:
        """The migrations that are already applied, if a read alone can tell."""
        return set()

    @abstractmethod
    def close(self) -> None:
        """Close connections and release locks; the next use opens new ones."""

    # -- differences between the engines

    @abstractmethod
    def whole(self, expression: str) -> str:
        """SQL that truncates a number towards zero."""

    # -- maintenance

    @abstractmethod
    def check(self) -> list[str]:
        """Problems of the store; empty if there are none."""

    @abstractmethod
    def server(self) -> str:
        """The database software and its version."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def purge(self, *, rewrite: bool = True, waiting: Waiting | None = None) -> list[str]:
        """Remove deleted data from the disk; returns descriptions of the places that may still hold some of it.

        `rewrite` also frees the disk space, which takes as long as copying the store. `waiting` is told, once, if
        another process has to finish first.
        """

    def tables(self) -> dict[str, StoreTable]:
        """Every table of the store by name."""
        return {name: table._replace(derived=name in DERIVED) for name, table in self._tables().items()}

    @abstractmethod
    def _tables(self) -> dict[str, StoreTable]:
        """The tables that the database has."""

    @abstractmethod
    def counter(self, connection: Connection, table: str) -> int:
        """The last number that a numbered table assigned."""

    @abstractmethod
    def advance(self, connection: Connection, table: str, number: int) -> None:
        """Make a numbered table continue after this number."""

    @abstractmethod
    def fill(self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert many rows unchanged, including their keys."""

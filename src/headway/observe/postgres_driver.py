"""psycopg as this code sees it: connections that take `?`, numbers as SQLite has them, errors that name the cure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from headway.nouns.errors import Damaged, HeadwayError, InvalidInput, MissingExtra, Unavailable

try:
    import psycopg
    from psycopg import errors as said
    from psycopg.raw_cursor import RawCursor
    from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader, NumericLoader
except ImportError:
    raise MissingExtra("A PostgreSQL store", "psycopg", "postgres") from None

__all__ = ["Link", "ours", "shown"]

_SQL_PIECES = re.compile(r"('(?:[^']|'')*')|(\?)")


class Link:
    """A connection that speaks the SQL of this code: `?` marks values."""

    __slots__ = ("raw",)

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        settings: dict[str, Any] = {**parameters, "client_encoding": "utf8"}
        self.raw: psycopg.Connection[Any] = psycopg.connect(**settings, autocommit=True, cursor_factory=RawCursor)
        adapters = self.raw.adapters
        for kind in (int, bool):  # one width for all: a statement is then prepared once
            adapters.register_dumper(kind, Int8BinaryDumper)
        adapters.register_loader("numeric", _Number)
        adapters.register_loader("numeric", _NumberBinary)

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> RawCursor[Any]:
        cursor: RawCursor[Any] = RawCursor(self.raw)
        cursor.execute(_numbered(sql), values, binary=True)
        return cursor

    def executemany(self, sql: str, values: Iterable[Sequence[Any]], /) -> RawCursor[Any]:
        cursor: RawCursor[Any] = RawCursor(self.raw)
        cursor.executemany(_numbered(sql), values)
        return cursor


_known: dict[str, str] = {}


def _numbered(sql: str) -> str:
    """`?` outside of quotes as $1, $2, …"""
    found = _known.get(sql)
    if found is None:
        count = 0

        def place(match: re.Match[str]) -> str:
            nonlocal count
            if match[1]:
                return match[1]
            count += 1
            return f"${count}"

        found = _SQL_PIECES.sub(place, sql)
        if len(_known) > 500:  # lists of every length: forget rather than grow
            _known.clear()
        _known[sql] = found
    return found


def _plain(number: Decimal) -> int | float:
    """Sums of integers are NUMERIC in PostgreSQL and integers in SQLite."""
    return int(number) if number == number.to_integral_value() else float(number)


class _Number(NumericLoader):
    def load(self, data: Any) -> Any:
        return _plain(super().load(data))


class _NumberBinary(NumericBinaryLoader):
    def load(self, data: Any) -> Any:
        return _plain(super().load(data))


def shown(parameters: Mapping[str, Any]) -> str:
    """Where a store is, without the password."""
    host = str(parameters.get("host") or "localhost")
    port = f":{parameters['port']}" if parameters.get("port") else ""
    user = f"{parameters['user']}@" if parameters.get("user") else ""
    place = f"/{parameters['dbname']}" if parameters.get("dbname") else ""
    return f"postgresql://{user}{host}{port}{place}"


# -- errors


def ours(error: psycopg.Error, name: str, secret: str, *, connecting: bool = False) -> HeadwayError:
    """The driver's error as one of ours: what happened to the store called `name`, and what to do."""
    reason = _reason(error, secret)
    match error:
        case said.DiskFull():
            return Unavailable(
                f"The disk of {name} is full; nothing of this write was stored.",
                code="disk_full",
                hint="Free some space and try again; what was acknowledged before is safe.",
            )
        case said.DataCorrupted() | said.IndexCorrupted():
            return Damaged(
                f"{name} is damaged: {reason}.",
                code="store_damaged",
                hint="Ask whoever runs the server; restore the database from a backup (pg_restore).",
            )
        case said.LockNotAvailable() | said.QueryCanceled() | said.DeadlockDetected():
            return Unavailable(
                f"{name} is locked by another program: {reason}.",
                code="store_locked",
                hint="Try again; pg_stat_activity shows who holds the lock.",
            )
        case said.ReadOnlySqlTransaction() | said.InsufficientPrivilege():
            return Unavailable(
                f"{name} refuses to do that: {reason}.",
                code="store_refused",
                hint="Use the primary server, and a role that may create tables and write them: "
                "GRANT USAGE, CREATE ON SCHEMA … TO …",
            )
        case psycopg.DataError():
            return InvalidInput(f"{name} cannot store this: {reason}.", code="not_storable")
    if connecting:
        return _not_connected(name, reason)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Unavailable(
            f"{name} went away: {reason}.",
            code="store_unavailable",
            hint="Try again with the same id: what was acknowledged is safe, and nothing is stored twice.",
        )
    return Unavailable(
        f"{name} could not be used: {reason}.",
        code="store_unavailable",
        hint="If nobody else has changed its tables, this is a mistake in Headway: please report it.",
    )


def _not_connected(name: str, reason: str) -> Unavailable:
    """No connection was made; libpq gives a text, and no code."""
    for part, code, hint in _CURES:
        if part in reason:
            return Unavailable(f"{name} cannot be opened: {reason}.", code=code, hint=hint)
    return Unavailable(
        f"{name} cannot be reached: {reason}.",
        code="store_unreachable",
        hint="Check that the server runs and that host and port in [store] url are right.",
    )


def _reason(error: psycopg.Error, secret: str) -> str:
    """The last line of what the server said, without the password."""
    text = str(error.diag.message_primary or error).strip()
    if secret:
        text = text.replace(secret, "***")
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    fatal = [each.partition("FATAL:")[2].strip() for each in lines if "FATAL:" in each]
    return ((fatal or lines)[0] if lines else type(error).__name__).rstrip(".")


class _Cure(NamedTuple):
    part: str  # of what libpq says
    code: str
    hint: str


_FULL = "Raise max_connections of the server, or stop some of its clients."
_CURES = (
    _Cure(
        "password authentication failed",
        code="store_refused",
        hint="Check user and password in [store] url; a password may also lie in ~/.pgpass.",
    ),
    _Cure("no password supplied", code="store_refused", hint="Put the password into HEADWAY_STORE_URL or ~/.pgpass."),
    _Cure(
        "no pg_hba.conf entry",
        code="store_refused",
        hint="The server does not let this machine or user in: see its pg_hba.conf.",
    ),
    _Cure("role ", code="store_refused", hint="Create the role: createuser NAME"),
    _Cure("does not exist", code="store_missing", hint="Create the database: createdb NAME"),
    _Cure("too many", code="store_busy", hint=_FULL),
    _Cure("remaining connection slots", code="store_busy", hint=_FULL),
)

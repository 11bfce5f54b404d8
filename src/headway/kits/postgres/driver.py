"""psycopg adapted to the store: connections that accept `?`, numbers as in SQLite, errors with a hint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from headway.nouns import errors

try:
    import psycopg
    from psycopg import errors as failures
    from psycopg.raw_cursor import RawCursor
    from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader, NumericLoader
except ImportError:
    raise errors.MissingExtra("A PostgreSQL store", "psycopg", "postgres") from None


COUNTER = (
    "SELECT last_value FROM pg_sequences WHERE (quote_ident(schemaname) || '.' || quote_ident(sequencename)) = "
    "pg_get_serial_sequence('{table}', '{column}')"
)
TABLES = (
    "SELECT c.relname::text, "
    "ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 "
    "AND NOT a.attisdropped ORDER BY a.attnum), "
    "ARRAY(SELECT a.attname::text FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(n, place) "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n WHERE i.indrelid = c.oid AND i.indisprimary "
    "ORDER BY k.place), "
    "EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attidentity <> '') "
    "FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname"
)
_OLDEST = 13  # pg_current_snapshot
_SQL_PIECES = re.compile(r"('(?:[^']|'')*')|(\?)")


class Link:
    """A connection that accepts SQL with `?` for values."""

    __slots__ = ("raw",)

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        settings: dict[str, Any] = {**parameters, "client_encoding": "utf8"}
        self.raw: psycopg.Connection[Any] = psycopg.connect(**settings, autocommit=True, cursor_factory=RawCursor)
        adapters = self.raw.adapters
        for kind in (int, bool):  # one width, so that a statement is prepared once
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
    """The SQL with `?` outside quotes replaced by $1, $2, …"""
    numbered = _known.get(sql)
    if numbered is None:
        count = 0

        def place(match: re.Match[str]) -> str:
            nonlocal count
            if match[1]:
                return match[1]
            count += 1
            return f"${count}"

        numbered = _SQL_PIECES.sub(place, sql)
        if len(_known) > 500:  # lists have any length: empty the cache rather than let it grow
            _known.clear()
        _known[sql] = numbered
    return numbered


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
    """The location of a store, without the password."""
    host = str(parameters.get("host") or "localhost")
    port = f":{parameters['port']}" if parameters.get("port") else ""
    user = f"{parameters['user']}@" if parameters.get("user") else ""
    place = f"/{parameters['dbname']}" if parameters.get("dbname") else ""
    return f"postgresql://{user}{host}{port}{place}"


def schema_of(raw: psycopg.Connection[Any], name: str) -> str:
    """The schema of this store, after checking the version and encoding of the server."""
    row = raw.execute("SELECT current_schema(), current_setting('server_encoding')").fetchone()
    schema, encoding = row if row is not None else (None, "")
    if raw.info.server_version < _OLDEST * 10_000:
        raise errors.Unavailable(
            f"{name} is PostgreSQL {raw.info.server_version // 10_000}.",
            code="store_unsupported",
            hint=f"Headway needs PostgreSQL {_OLDEST} or newer.",
        )
    if encoding != "UTF8":
        raise errors.Unavailable(
            f"{name} stores text as {encoding}, expected UTF8.",
            code="store_unsupported",
            hint="Create the database with ENCODING 'UTF8' TEMPLATE template0.",
        )
    if schema is None:
        raise errors.Unavailable(
            f"{name} has no schema to create tables in.",
            code="store_unsupported",
            hint="Create the schema in `search_path`, or omit `options` from the URL.",
        )
    return str(schema)


# -- errors


def ours(error: psycopg.Error, name: str, secret: str, *, connecting: bool = False) -> errors.HeadwayError:
    """The driver's error as one of ours, for the store called `name`."""
    reason = _reason(error, secret)
    match error:
        case failures.DiskFull():
            return errors.Unavailable(
                f"The disk of {name} is full; this write was not stored.",
                code="disk_full",
                hint="Free some space and try again; earlier acknowledged writes are safe.",
            )
        case failures.DataCorrupted() | failures.IndexCorrupted():
            return errors.Damaged(
                f"{name} is damaged: {reason}.",
                code="store_damaged",
                hint="Ask the administrator of the server; restore the database from a backup (pg_restore).",
            )
        case failures.LockNotAvailable() | failures.QueryCanceled() | failures.DeadlockDetected():
            return errors.Unavailable(
                f"{name} is locked by another program: {reason}.",
                code="store_locked",
                hint="Try again; pg_stat_activity shows which client holds the lock.",
            )
        case failures.ReadOnlySqlTransaction() | failures.InsufficientPrivilege():
            return errors.Unavailable(
                f"{name} refused the operation: {reason}.",
                code="store_refused",
                hint="Use the primary server, and a role that may create and write tables: "
                "GRANT USAGE, CREATE ON SCHEMA … TO …",
            )
        case failures.UndefinedTable() | failures.InvalidSchemaName():
            return lost(name, reason)
        case psycopg.DataError():
            return errors.InvalidInput(f"{name} cannot store this: {reason}.", code="not_storable")
    if connecting:
        return _not_connected(name, reason)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return errors.Unavailable(
            f"The connection to {name} was lost: {reason}.",
            code="store_unavailable",
            hint="Try again with the same id: acknowledged writes are safe, and nothing is stored twice.",
        )
    return errors.Unavailable(
        f"{name} could not be used: {reason}.",
        code="store_unavailable",
        hint="If no other program changed its tables, this is a bug in Headway: please report it.",
    )


def lost(name: str, how: str) -> errors.Unavailable:
    """The error for a store whose database or tables are gone."""
    return errors.Unavailable(
        f"{name} is not the store that it was: {how}. Nothing is stored any more.",
        code="store_lost",
        hint="Stop Headway, restore the database from a backup (pg_restore), then start it again.",
    )


def _not_connected(name: str, reason: str) -> errors.Unavailable:
    """The error for a failed connection; libpq gives only a text, no code."""
    for part, code, hint in _CURES:
        if part in reason:
            return errors.Unavailable(f"{name} cannot be opened: {reason}.", code=code, hint=hint)
    return errors.Unavailable(
        f"{name} cannot be reached: {reason}.",
        code="store_unreachable",
        hint="Check that the server is running, and check the host and port in [store] url.",
    )


def _reason(error: psycopg.Error, secret: str) -> str:
    """The main line of the server's message, without the password."""
    text = str(error.diag.message_primary or error).strip()
    if secret:
        text = text.replace(secret, "***")
    lines = [splitline.strip() for splitline in text.splitlines() if splitline.strip()]
    fatal = [line.partition("FATAL:")[2].strip() for line in lines if "FATAL:" in line]
    return ((fatal or lines)[0] if lines else type(error).__name__).rstrip(".")


class _Cure(NamedTuple):
    part: str  # of libpq's message
    code: str
    hint: str


_FULL = "Raise max_connections of the server, or stop some of its clients."
_CURES = (
    _Cure(
        "password authentication failed",
        code="store_refused",
        hint="Check the user and password in [store] url, or in ~/.pgpass.",
    ),
    _Cure("no password supplied", code="store_refused", hint="Set the password in HEADWAY_STORE_URL or ~/.pgpass."),
    _Cure(
        "no pg_hba.conf entry",
        code="store_refused",
        hint="Allow this machine and user in the server's pg_hba.conf.",
    ),
    _Cure("role ", code="store_refused", hint="Create the role: createuser NAME"),
    _Cure("does not exist", code="store_missing", hint="Create the database: createdb NAME"),
    _Cure("too many", code="store_busy", hint=_FULL),
    _Cure("remaining connection slots", code="store_busy", hint=_FULL),
)

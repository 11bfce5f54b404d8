"""Interning: values that repeat in every row are stored once and referenced by a small integer.

Ids from inside a transaction are trusted only after its commit: an `Interner` collects them in `new`, and the store
remembers them once the write has returned. So a rolled-back id is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headway.observe.database import Connection, placeholders


class Interner(NamedTuple):
    """One transaction's view: known ids, then the database, then a new row."""

    connection: Connection
    known: Mapping[Any, Any]  # value → id; or the values that decisions share → their ids
    new: dict[Any, Any]

    def name(self, kind: str, name: str) -> int:
        key = (kind, name)
        return self.known.get(key) or self._intern(key, "names", ("kind", "name"), key)

    def policy(self, ref: str, digest: str) -> int:
        key = ("policy", ref, digest)
        return self.known.get(key) or self._intern(key, "policies", ("ref", "hash"), (ref, digest))

    def candidate_set(self, digest: bytes, body: str) -> int:
        return self._intern(digest, "candidate_sets", ("hash",), (digest,), body)

    def config(self, digest: str, body: str) -> int:
        key = ("config", digest)
        return self.known.get(key) or self._intern(key, "configs", ("hash",), (digest,), body)

    def _intern(
        self, key: Any, table: str, columns: tuple[str, ...], values: tuple[Any, ...], body: str | None = None
    ) -> int:
        known: int | None = self.new.get(key)
        if known is not None:
            return known
        where = " AND ".join(f"{column} = ?" for column in columns)
        row = self.connection.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()
        if row is None:
            if body is not None:
                columns, values = (*columns, "body"), (*values, body)
            marks = placeholders(values)
            row = self.connection.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) RETURNING id", values
            ).fetchone()
        self.new[key] = int(row[0])
        return int(row[0])

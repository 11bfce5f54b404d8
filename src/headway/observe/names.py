"""Interning: values that repeat in every row are stored once and referenced by a small integer.

Ids from inside a transaction are trusted only after its commit: a session collects them in `new`, and the caller passes
them to `Names.keep` once the write has returned. So a rolled-back id is never used. Every deletion, by any process,
increments a mark that each transaction compares before it trusts an id (`Names.check`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.observe.database import Connection, placeholders

_LIMIT = 20_000  # candidate sets may be unique per decision: the cache is emptied when it reaches this size


class Names:
    """The ids that this process has cached."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self._erased = 0

    def check(self, connection: Connection) -> None:
        """Empty the cache if anything was deleted: interned rows may be gone. 2 µs per transaction."""
        row = connection.execute("SELECT value FROM marks WHERE task_id = 0 AND name = 'erased'").fetchone()
        erased = 0 if row is None else row[0]
        if erased != self._erased:
            self._erased, self._known = erased, {}

    def session(self, connection: Connection) -> Interner:
        return Names.Interner(connection, self._known)

    def keep(self, ids: Mapping[Any, int]) -> None:
        if ids:
            if len(self._known) > _LIMIT:
                self._known = {}
            self._known.update(ids)

    class Interner:
        """One transaction's view: known ids, then the database, then a new row."""

        __slots__ = ("_connection", "_known", "new")

        def __init__(self, connection: Connection, known: Mapping[Any, int]) -> None:
            self._connection = connection
            self._known = known
            self.new: dict[Any, int] = {}

        def name(self, kind: str, name: str) -> int:
            key = (kind, name)
            return self._known.get(key) or self._intern(key, "names", ("kind", "name"), key)

        def policy(self, ref: str, digest: str) -> int:
            key = ("policy", ref, digest)
            return self._known.get(key) or self._intern(key, "policies", ("ref", "hash"), (ref, digest))

        def candidate_set(self, digest: bytes, body: str) -> int:
            return self._known.get(digest) or self._intern(digest, "candidate_sets", ("hash",), (digest,), body)

        def config(self, digest: str, body: str) -> int:
            key = ("config", digest)
            return self._known.get(key) or self._intern(key, "configs", ("hash",), (digest,), body)

        def _intern(
            self, key: Any, table: str, columns: tuple[str, ...], values: tuple[Any, ...], body: str | None = None
        ) -> int:
            known = self.new.get(key)
            if known is not None:
                return known
            where = " AND ".join(f"{column} = ?" for column in columns)
            row = self._connection.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()
            if row is None:
                if body is not None:
                    columns, values = (*columns, "body"), (*values, body)
                marks = placeholders(values)
                row = self._connection.execute(
                    f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) RETURNING id", values
                ).fetchone()
            self.new[key] = int(row[0])
            return int(row[0])

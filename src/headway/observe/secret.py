"""The secret of a store: 126 random bits that no file but the store and its backups holds, and no answer shows.

An id that is computed from a client's word would otherwise be anybody's to compute.
"""

from __future__ import annotations

import struct
from secrets import randbits

from headway.observe.database import Connection, Database

_NAMES = ("secret 1", "secret 2")


def draw_secret(connection: Connection) -> None:
    """Write the secret of a new store; the caller's transaction."""
    rows = [(name, randbits(63)) for name in _NAMES]
    connection.executemany("INSERT INTO marks (task_id, name, value) VALUES (0, ?, ?)", rows)


def secret_of(database: Database) -> bytes:
    """The secret of a store, 16 bytes."""
    rows = database.query("SELECT value FROM marks WHERE task_id = 0 AND name IN (?, ?) ORDER BY name", _NAMES)
    return struct.pack("<2q", *(value for (value,) in rows))

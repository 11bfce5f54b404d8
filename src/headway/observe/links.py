"""Which of the page's links were used: each works once, whichever server is asked.

    Links(database).use(digest_of(code), until=until, now=clock())     # True once, False ever after

Only digests of links that were valid are kept, until an hour after they have become too old to be used anyway.
"""

from __future__ import annotations

from headway.observe.database import Database
from headway.observe.rows import microseconds

__all__ = ["Links"]

_KEPT_S = 3600.0  # the clocks of machines that share a store may differ


class Links:
    """The used links of a project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def use(self, sha256: bytes, *, until: float, now: float) -> bool:
        """Whether this is the first time."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM used_links WHERE until < ?", (microseconds(now - _KEPT_S),))
            added = connection.execute(
                "INSERT INTO used_links (sha256, until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (sha256, microseconds(until)),
            )
            return added.rowcount == 1

"""One-time links to the page: each works once, on any server of the project.

    Links(database).use(digest_of(code), until=until, now=clock())     # True the first time, then False

Stores digests of used links until one hour after the links expire.
"""

from __future__ import annotations

from headway.observe.database import Database
from headway.observe.rows import microseconds

_GRACE_S = 3600.0  # the clocks of machines that share a store may differ


class Links:
    """The used links of a project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def use(self, sha256: bytes, *, until: float, now: float) -> bool:
        """Use a link; True if this is its first use."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM used_links WHERE until < ?", (microseconds(now - _GRACE_S),))
            added = connection.execute(
                "INSERT INTO used_links (sha256, until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (sha256, microseconds(until)),
            )
            return added.rowcount == 1

"""The two engines of the store."""

from __future__ import annotations

from pathlib import Path

from headway.observe.database import Database, Durability


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

"""The engines of the store: SQLite, and what kits bring for URLs."""

from __future__ import annotations

from pathlib import Path

from headway.nouns import catalogue, load
from headway.observe.database import Database, Durability
from headway.observe.keys import draw_secret
from headway.observe.migrations import SECRET, UNITS
from headway.observe.units import fold_attempts


def open_database(place: Path | str, durability: Durability = "power") -> Database:
    """The store at a path (SQLite) or a URL (of a built-in kit), created and migrated as needed."""
    database: Database
    if isinstance(place, Path):
        from headway.observe.sqlite import SQLite

        database = SQLite(place, durability)
    else:
        scheme = place.partition(":")[0]
        engine = catalogue().look_up("stores", scheme, called="kind of store", code="settings_bad_value")
        database = load(engine)(place, durability)
    try:
        database.migrate({UNITS: fold_attempts, SECRET: draw_secret})
    except BaseException:
        database.close()
        raise
    return database

"""A store of the previous version is migrated when it is opened, and keeps its content."""

from __future__ import annotations

from headway.observe.database import placeholders
from headway.observe.engines import open_database
from headway.observe.migrations import DERIVED, MIGRATIONS
from headway.observe.query import Query
from headway.promote.ledger import Ledger
from tests.observe.test_copy_store import everything, fill

NEWEST = "0017_blocks"
ADDED = tuple(name for name, _ in MIGRATIONS if name >= "0009")


def test_migrating_adds_indexes_details_totals_and_the_order_of_imports_and_keeps_all_rows(ground, place):
    assert MIGRATIONS[-1][0] == NEWEST
    fill(ground, 12)
    with ground.database.transaction() as connection:
        for name in ("ledger_by_kind", "ledger_by_policy", "evidence_by_task"):
            connection.execute(f"DROP INDEX {name}")
        connection.execute("DROP TABLE details")
        connection.execute("DROP TABLE outages")
        connection.execute("DROP INDEX imported_by_place")
        connection.execute("ALTER TABLE imported DROP COLUMN place")
        for name in DERIVED:
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DELETE FROM marks WHERE name LIKE 'secret %'")
        for name in ("settled_first", "episodes_by_task", "even_pairs", "decisions_by_unit"):
            connection.execute(f"DROP INDEX {name}")
        for name in ("unit", "position"):
            connection.execute(f"ALTER TABLE decisions DROP COLUMN {name}")
        connection.execute(f"DELETE FROM migrations WHERE name IN ({placeholders(ADDED)})", ADDED)
    before = everything(ground.database)
    again = open_database(place)
    after = everything(again)
    for name in ("details", "outages", *DERIVED):
        assert after.pop(name, []) == []
    assert [row[0] for row in after.pop("migrations")] == [name for name, _ in MIGRATIONS]
    del before["migrations"]
    secret = [row for row in after["marks"] if str(row[1]).startswith("secret ")]
    assert len(secret) == 2
    after["marks"] = [row for row in after["marks"] if row not in secret]
    assert {row[-2:] for row in after["decisions"]} == {(None, None)}  # no unit, no position
    after["decisions"] = [row[:-2] for row in after["decisions"]]
    assert after == before
    assert Ledger(again, Query(again)).heads("route").expects == "aaaa"
    again.close()

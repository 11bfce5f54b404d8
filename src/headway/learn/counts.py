"""What a learner says about the rows that it read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.nouns import InvalidInput, Settled


def no_counts() -> dict[str, Any]:
    """Counts that `count_row` fills: rows by source and status, and the first and the last one."""
    return {"sources": {}, "statuses": {}, "first": None, "last": None}


def count_row(row: Settled, counts: dict[str, Any]) -> None:
    for table, name in ((counts["sources"], row.decision.source), (counts["statuses"], row.status)):
        table[name] = table.get(name, 0) + 1
    counts["first"] = row.seq if counts["first"] is None else min(counts["first"], row.seq)
    counts["last"] = row.seq if counts["last"] is None else max(counts["last"], row.seq)


def add_counts(more: Mapping[str, Any], counts: dict[str, Any]) -> None:
    """Add the counts of other rows."""
    for table in ("sources", "statuses"):
        for name, count in more.get(table, {}).items():
            counts[table][name] = counts[table].get(name, 0) + count
    for name, choose in (("first", min), ("last", max)):
        known = [number for number in (counts[name], more.get(name)) if number is not None]
        counts[name] = choose(known) if known else None


def nothing_to_learn() -> InvalidInput:
    return InvalidInput(
        "There is no decision with a reward in the train part.",
        code="nothing_to_learn",
        hint="Send signals for the decisions, or wait until they settle.",
    )

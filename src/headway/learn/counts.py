"""What a learner says about the rows that it read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.nouns import Settled, errors


class RowCounts(dict[str, Any]):
    """Rows by source and status, and the first and the last one."""

    def __init__(self) -> None:
        super().__init__(sources={}, statuses={}, first=None, last=None)

    def row(self, row: Settled) -> None:
        """Count one row."""
        self.add({"sources": {row.decision.source: 1}, "statuses": {row.status: 1}, "first": row.seq, "last": row.seq})

    def add(self, more: Mapping[str, Any]) -> None:
        """Add the counts of other rows."""
        for table in ("sources", "statuses"):
            for name, count in more.get(table, {}).items():
                self[table][name] = self[table].get(name, 0) + count
        for name, choose in (("first", min), ("last", max)):
            known = [number for number in (self[name], more.get(name)) if number is not None]
            self[name] = choose(known) if known else None


def nothing_to_learn() -> errors.InvalidInput:
    return errors.InvalidInput(
        "There is no decision with a reward in the train part.",
        code="nothing_to_learn",
        hint="Send signals for the decisions, or wait until they settle.",
    )

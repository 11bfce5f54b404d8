"""A deletion while it is made, for kits that keep copies of what goes: what is deleted, and the details beside it.

    def erase(project, going: Erasing) -> int:                   # `erases` of a passport; how many copies went
        gone = going.of_texts(texts_of_my_files)                 # those that a deleted decision has
        for decision, data in going.details("acme", "notes"):
            going.put(decision, "acme", "notes", without(data))

It is called inside the transaction, before the rows are deleted. What it does to files cannot be rolled back: it leaves
them alone in a dry run, and only counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headway.nouns import Detail, ids
from headway.observe.database import Connection, chunks, placeholders
from headway.observe.details import checked, put
from headway.observe.erase import DeletionFilter, MatchedRows


@dataclass(frozen=True, slots=True)
class Erasing:
    """What one deletion removes."""

    connection: Connection
    wanted: DeletionFilter
    matched: MatchedRows
    dry_run: bool = False

    def of_ids(self, decisions: Sequence[str]) -> set[str]:
        """Those of these decisions that are deleted."""
        raw = [ids.raw(decision) for decision in decisions]
        return {ids.text(bytes(value)) for value in self._matching("id", raw)}

    def of_texts(self, texts: Sequence[str]) -> set[str]:
        """Those of these texts that a deleted decision has."""
        return set(self._matching("text", texts))

    def _matching(self, column: str, values: Sequence[Any]) -> Iterator[Any]:
        for chunk in chunks(list(values)):
            rows = self.connection.execute(
                f"SELECT {column} FROM decisions WHERE ({self.matched.where}) AND {column} IN ({placeholders(chunk)})",
                (*self.matched.values, *chunk),
            )
            yield from (row[0] for row in rows)

    def details(self, kit: str, name: str) -> list[tuple[str, bytes]]:
        """A detail of all decisions that have it, deleted or not, in the task that the deletion is restricted to."""
        inside = " AND decision IN (SELECT id FROM decisions WHERE task_id = ?)" if self.matched.task_id else ""
        values = (self.matched.task_id,) if self.matched.task_id else ()
        rows = self.connection.execute(
            f"SELECT decision, data FROM details WHERE kit = ? AND name = ?{inside} ORDER BY decision",
            (kit, name, *values),
        )
        return [(ids.text(bytes(decision)), bytes(data)) for decision, data in rows]

    def detail(self, decision: str, kit: str, name: str) -> bytes | None:
        """One detail of one decision."""
        found = self.connection.execute(
            "SELECT data FROM details WHERE decision = ? AND kit = ? AND name = ?", (ids.raw(decision), kit, name)
        ).fetchone()
        return None if found is None else bytes(found[0])

    def put(self, decision: str, kit: str, name: str, data: bytes) -> None:
        """Replace a detail."""
        put(self.connection, decision, checked(decision, [Detail(kit, name, data)]))

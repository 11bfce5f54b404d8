"""Decisions, decoded; a loop keeps those that it has read, because it reads the same ones many times.

    decoded = DecodedDecisions(database)
    decoded.keep()                                              # a loop does; others read a row once or twice
    sql = f"SELECT s.reward, {decoded.columns} FROM {decoded.tables} JOIN settled s ON s.decision = d.seq"
    decoded.beside(database.query(sql), 1)                      # every row with its decision

A stored decision never changes, and its number is never given to another one. So a decoded decision holds for as long
as its row exists, and only the rows that a query has just read are asked for. After a deletion nothing is kept, so that
what was deleted is not in memory either.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from headway.nouns import Decision
from headway.observe.database import Database, Row, chunks, placeholders
from headway.observe.rows import DECISION_COLUMNS, DECISION_TABLES, decision_from_row

_MOST_BYTES = 64 * 2**20
_EACH = 1500  # bytes of a decision without its text and state, about
_PAGE = 2000


class DecodedDecisions:
    """Decodes decisions; keeps the newest of them in memory if it is told to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[int, Decision] = {}
        self._oldest: list[int] = []  # the numbers of those that are kept, as a heap
        self._bytes = self._most = 0
        self._deletion = 0  # the last one in the ledger

    def keep(self, most_bytes: int = _MOST_BYTES) -> None:
        """From now on, keep what is read, up to about so many bytes."""
        self._most = most_bytes

    @property
    def columns(self) -> str:
        """What a query selects of the decision `d`: all of it, or its number if decisions are kept."""
        return "d.seq" if self._most else DECISION_COLUMNS

    @property
    def tables(self) -> str:
        """What it selects from."""
        return "decisions d" if self._most else DECISION_TABLES

    def tables_on(self, number: str) -> str:
        """The same, joined to a column with the number of the decision."""
        return self.tables.replace("decisions d", f"decisions d ON d.seq = {number}", 1)

    def beside(self, rows: Sequence[Row], place: int) -> list[tuple[Row, Decision]]:
        """Rows with `columns` from a place on, each with its decision; one that was deleted meanwhile is left out."""
        if rows and len(rows[0]) > place + 1:
            return [(row, decision_from_row(row[place:])) for row in rows]
        decisions = self._of([row[place] for row in rows])
        return [(row, decisions[row[place]]) for row in rows if row[place] in decisions]

    def _of(self, seqs: Sequence[int]) -> dict[int, Decision]:
        self._forget_deleted()
        decisions = {seq: self._kept[seq] for seq in seqs if seq in self._kept}
        missing = [seq for seq in seqs if seq not in decisions]
        for chunk in chunks(missing, _PAGE):
            sql = f"SELECT {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE d.seq IN ({placeholders(chunk)})"
            for row in self._database.query(sql, chunk):
                decisions[row[0]] = decision_from_row(row)
        self._remember([decisions[seq] for seq in missing if seq in decisions])
        return decisions

    def _forget_deleted(self) -> None:
        last = self._database.query("SELECT COALESCE(MAX(seq), 0) FROM ledger WHERE kind = 'deletion'")[0][0]
        if last != self._deletion:
            self._kept, self._oldest, self._bytes, self._deletion = {}, [], 0, last

    def _remember(self, decisions: Sequence[Decision]) -> None:
        """Keep the newest: once the memory is full, one that is older than all that are kept finds no place."""
        for decision in decisions:
            if self._bytes >= self._most and self._oldest and decision.seq < self._oldest[0]:
                continue
            self._kept[decision.seq] = decision
            heappush(self._oldest, decision.seq)
            self._bytes += _size(decision)
            while self._bytes > self._most:
                self._bytes -= _size(self._kept.pop(heappop(self._oldest)))


def _size(decision: Decision) -> int:
    situation = decision.situation
    return _EACH + 2 * len(situation.text) + sum(100 + len(str(value)) for value in situation.state.values())

"""When things happened, for the checks of a proof: first signals, decisions dated ahead, decisions of one moment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

from headway.nouns import SOURCES, id_bytes
from headway.observe.database import Database, chunks, placeholders
from headway.observe.query import Query
from headway.observe.rows import LEADS, microseconds

_CONTENT = "d.text, d.state, d.step, d.candidate_set_id, d.probabilities, d.action, d.seed"
_LEAST = 5  # pairs that repeat one another before anything is called a copy


@dataclass(frozen=True, slots=True)
class SameMoment:
    """Pairs of decisions from elsewhere with the same time, to tell copies from times that are too coarse.

    `usual`: how often any two of the decisions have the same content, at whatever time.
    """

    pairs: int = 0
    equal: int = 0  # pairs with the same content too
    usual: float = 0.0

    @property
    def copies(self) -> bool:
        """Whether decisions of one moment are copies: they repeat one another far more often than any two do."""
        return self.equal >= _LEAST and self.equal >= self.pairs * max(0.5, 3.0 * self.usual)


def first_signals(database: Database, decisions: Sequence[str]) -> list[float]:
    """The time of each decision's first signal that counts; NaN without one."""
    keys = [id_bytes(decision) for decision in decisions]
    first: dict[bytes, int] = {}
    for chunk in chunks(keys, 1000):
        first.update(
            database.query(
                f"SELECT g.subject, MIN(g.at) FROM signals g WHERE g.subject IN ({placeholders(chunk)}) "
                "AND g.withdrawn_by IS NULL AND g.value IS NOT NULL GROUP BY g.subject",
                chunk,
            )
        )
    return [first[key] / 1e6 if key in first else float("nan") for key in keys]


def ahead(database: Database, query: Query, task: str, now: float) -> int:
    """Decisions that are dated after now."""
    values = (query.name_id("task", task), microseconds(now))
    return int(
        database.query(f"SELECT COUNT(*) FROM decisions d WHERE task_id = ? AND at > ? AND {LEADS}", values)[0][0]
    )


def same_moment(database: Database, query: Query, task: str, *, but: Collection[str] = ()) -> SameMoment:
    """How decisions that something else made share their times and contents, `but` fields of the state apart."""
    where = (
        f"FROM decisions d WHERE d.task_id = ? AND {LEADS} AND "
        "(d.source = ? OR d.config_id IN (SELECT id FROM configs WHERE hash = 'elsewhere'))"
    )
    values = (query.name_id("task", task), SOURCES.index("imported"))

    def pairs(by: str) -> int:
        counts = f"SELECT COUNT(*) AS n {where} GROUP BY {by} HAVING COUNT(*) > 1"
        rows = database.query(f"SELECT SUM(n * (n - 1) / 2) FROM ({counts}) AS repeated", values)
        return int(rows[0][0] or 0)

    together = pairs("d.at")
    if not together:
        return SameMoment()
    count = int(database.query(f"SELECT COUNT(*) {where}", values)[0][0])
    if but:
        rows = database.query(f"SELECT d.at, d.state, {_CONTENT} {where}", values)
        states = [json.loads(row[1] or "{}") for row in rows]
        kept = [tuple(sorted((name, str(value)) for name, value in held.items() if name not in but)) for held in states]
        same = [(state, *row[2:3], *row[4:]) for state, row in zip(kept, rows, strict=True)]
        alike, usual = _pairs([(row[0], what) for row, what in zip(rows, same, strict=True)]), _pairs(same)
    else:
        alike, usual = pairs(f"d.at, {_CONTENT}"), pairs(_CONTENT)
    return SameMoment(together, alike, usual / (count * (count - 1) / 2))


def _pairs(values: Iterable[Hashable]) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(values).values())

"""When things happened, for the checks of a proof: first signals, and decisions of one moment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headway.nouns import SOURCES
from headway.observe.database import Database, chunks, placeholders
from headway.observe.frame import TaskFrame, joined
from headway.observe.rows import dumps, loads

_CONTENT = "d.text, d.step, d.candidate_set_id, d.probabilities, d.action, d.seed"
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


def first_signals(database: Database, keys: Sequence[bytes]) -> list[float]:
    """The time of each decision's first signal that counts, by the ids in the store; NaN without one."""
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


def same_moment(database: Database, frame: TaskFrame, *, but: Collection[str] = ()) -> SameMoment:
    """How decisions that something else made share their times and contents, `but` fields of the state apart."""
    imported = SOURCES.index("imported")
    blocks = [
        block.where(block.leads & ((block.source == imported) | frame.claimed(block))) for block in frame.blocks()
    ]
    rows = joined(blocks)
    together = _pairs(rows.at)
    if not together:
        return SameMoment()
    alike: list[int] = []
    usual: list[int] = []
    for chunk in chunks(rows.seq.tolist(), 2000):
        sql = f"SELECT d.at, d.state, {_CONTENT} FROM decisions d WHERE d.seq IN ({placeholders(chunk)})"
        for at, state, *content in database.query(sql, chunk):
            kept = dumps({name: value for name, value in loads(state).items() if name not in but}) if but else state
            usual.append(hash((kept, *content)))
            alike.append(hash((at, usual[-1])))
    count = len(usual)
    return SameMoment(together, _pairs(alike), _pairs(usual) / (count * (count - 1) / 2))


def _pairs(values: ArrayLike) -> int:
    """How many pairs of these are equal."""
    _, counts = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    return int((counts * (counts - 1) // 2).sum())

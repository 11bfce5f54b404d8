"""Decisions in the order in which they were made, each with its outcome if there is one: the rows of a proof.

    order = draws_of(query.frame("route"))             # every draw of the task, by time
    mature = order.mature()                            # how many of the first ones may be judged
    rows = ordered(frame, order.seq[:mature])          # their columns

Learning may read outcomes in the order in which they became known. A proof must not: outcomes that come fast are not a
random choice of all, and an arm whose failures are reported late would look good until they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from headway.observe.database import Database, Row, chunks, placeholders
from headway.observe.frame import Block, Flags, TaskFrame, joined
from headway.observe.rows import DECISION_COLUMNS, DECISION_TABLES, OUTCOME_WIDTH, STATUSES

OPEN_SHARE = 0.01  # of each action's decisions, the share that may still be open before the mark
_PAGE = 2000
_PENDING = STATUSES.index("pending")
_LIVE = "s.decision = d.seq AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)"


@dataclass(frozen=True, slots=True)
class Draws:
    """All draws of a task, by the time of the decision."""

    seq: NDArray[np.int64]  # [n]; the store's number of the decision
    at: NDArray[np.int64]  # [n]; microseconds
    action: NDArray[np.int64]  # [n]; a number per action's name
    final: NDArray[np.bool_]  # [n]; rewarded, failed, or censored after its waiting time

    def __len__(self) -> int:
        return int(self.seq.size)

    def where(self, chosen: NDArray[np.bool_]) -> Draws:
        """Only these rows."""
        return Draws(self.seq[chosen], self.at[chosen], self.action[chosen], self.final[chosen])

    def first(self, count: int) -> NDArray[np.bool_]:
        """Which rows are the first so many."""
        return np.arange(len(self)) < count

    def mature(self, before: float = inf) -> int:
        """How many rows are before the maturity mark: the latest moment before which 99% of each action's are final.

        Where every outcome is in, that is all of them up to the time `before`; where outcomes take a day, those of up
        to a day ago.
        """
        change = np.zeros(len(self), dtype=np.int64)  # how many more actions have too many open rows after this one
        for action in np.unique(self.action):
            places = np.flatnonzero(self.action == action)
            still_open = np.cumsum(~self.final[places])
            late = (still_open > OPEN_SHARE * np.arange(1, places.size + 1)).astype(np.int64)
            change[places] += np.diff(late, prepend=0)
        mature = np.flatnonzero(np.cumsum(change) == 0)
        old = int(np.searchsorted(self.at, before * 1e6, side="right"))
        return min(int(mature[-1]) + 1, old) if mature.size else 0


def draws_of(frame: TaskFrame, *, after: int = 0) -> Draws:
    """The draws of a task, by time; `after`: only those that were stored after this one."""
    numbers: dict[str, int] = {}  # of actions, by name
    columns = [np.empty((4, 0), dtype=np.int64)]
    for block in frame.blocks(after=after):
        rows = block.where(block.leads & (block.seq > after))
        actions, names = frame.actions(rows)
        number = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
        columns.append(np.stack([rows.seq, rows.at, number[actions] if names else actions, rows.status != _PENDING]))
    seq, at, action, final = np.concatenate(columns, axis=1)
    order = np.lexsort((seq, at))
    return Draws(seq[order], at[order], action[order], final[order].astype(np.bool_))


def ordered(
    frame: TaskFrame, seqs: NDArray[np.int64], *, but: Callable[[TaskFrame, Block], Flags] | None = None
) -> Block:
    """The rows with these numbers in this order, without some of each whole block."""
    order = np.argsort(seqs)
    numbers, chosen = seqs[order], list[Block]()
    for block in frame.blocks():
        places = np.searchsorted(numbers, block.seq[[0, -1]], side="left")
        if places[0] <= places[1] and numbers.size:
            kept = np.isin(block.seq, numbers[places[0] : places[1] + 1])
            chosen.append(block.where(kept if but is None else kept & ~but(frame, block)))
    rows = joined(chosen)
    return rows.where(np.argsort(order[np.searchsorted(numbers, rows.seq)]))


def known(frame: TaskFrame) -> list[int]:
    """The numbers of the decisions with an outcome, in the order in which it became known."""
    rows = [np.stack([block.settled, block.seq])[:, block.settled > 0] for block in frame.blocks()]
    settled, seqs = np.concatenate([np.empty((2, 0), dtype=np.int64), *rows], axis=1)
    numbers: list[int] = seqs[np.argsort(settled)].tolist()
    return numbers


def outcome_pages(database: Database, seqs: Sequence[int]) -> Iterator[list[Row]]:
    """Pages of SETTLED_COLUMNS for these decisions, in this order; `pending` if one is open."""
    sql = (
        "SELECT COALESCE(s.seq, 0), s.reward, COALESCE(s.status, 0), s.replaces, s.weight, "
        "COALESCE((SELECT MIN(f.seq) FROM settled f WHERE f.decision = d.seq), 0), COALESCE(s.clipped, 0), "
        f"{DECISION_COLUMNS} FROM {DECISION_TABLES} LEFT JOIN settled s ON {_LIVE} WHERE d.seq IN "
    )
    for page in chunks(seqs, _PAGE):
        rows = {row[OUTCOME_WIDTH]: row for row in database.query(f"{sql}({placeholders(page)})", page)}
        yield [rows[seq] for seq in page if seq in rows]

"""Which decisions a reader wants, chosen by their columns: no record is made of any other.

seqs = newest_trained(frame, ["train", "tune"], "group", upto=9_000, from_decision=0, most=5_000)
query.outcomes(seqs)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from headway.nouns import SOURCES
from headway.observe.experience import PARTS, SplitBy, parts_of
from headway.observe.frame import Block, Flags, TaskFrame, Whole, joined

_CODES: dict[str, int] = {name: code for code, name in enumerate(PARTS)}


def settled_of_parts(frame: TaskFrame, parts: Collection[str], by: SplitBy, *, upto: int, after: int = 0) -> Block:
    """The decisions of some parts that settled after one row of the outcome log, up to another; in its order."""
    codes, chosen = [_CODES[name] for name in parts], list[Block]()
    for block in frame.blocks():
        settled = (block.settled > after) & (block.settled <= upto)
        if settled.any():
            chosen.append(block.where(settled & np.isin(parts_of(frame, block, by), codes)))
    rows = joined(chosen)
    return rows.where(np.argsort(rows.settled))


def newest_trained(
    frame: TaskFrame, parts: Collection[str], by: SplitBy, *, upto: int, from_decision: int, most: int
) -> list[int]:
    """Training rows with a reward and known probabilities, by number: the newest, or the first if others are newer."""
    rows = settled_of_parts(frame, parts, by, upto=upto)
    rows = rows.where((rows.seq >= from_decision) & ~np.isnan(rows.reward) & rows.known)
    recent = rows.seq[rows.settled > upto - 4 * most][-most:]
    seqs: list[int] = (recent if recent.size else rows.seq[:most]).tolist()
    return seqs


def outcomes_upto(frame: TaskFrame, upto: int) -> tuple[int, int]:
    """Present outcomes up to a row of their log, and how many of them have a reward."""
    found = [block.reward[(block.settled > 0) & (block.settled <= upto)] for block in frame.blocks()]
    return sum(one.size for one in found), sum(int((~np.isnan(one)).sum()) for one in found)


def spread_trained(
    frame: TaskFrame, parts: Collection[str], by: SplitBy, *, upto: int, places: int, most: int
) -> list[int]:
    """Training rows, by number: the first ones after each of some places of the outcome log."""
    rows = settled_of_parts(frame, parts, by, upto=upto)
    starts = np.searchsorted(rows.settled, [upto * place // places for place in range(places)], side="right")
    ends = np.minimum([*starts[1:], len(rows)], starts + most // places)
    return [seq for start, end in zip(starts, ends, strict=True) for seq in rows.seq[start:end].tolist()]


def spread_windows(
    frame: TaskFrame, parts: Collection[str], by: SplitBy, *, upto: int, mined: bool, windows: int, most: int
) -> list[int]:
    """Settled rows, by number: all, or those in evenly spread windows of an outcome log that is longer than `most`."""
    rows = settled_of_parts(frame, parts, by, upto=upto)
    rows = rows if mined else rows.where(rows.source != SOURCES.index("mined"))
    if upto > most:
        size = most // windows
        starts = np.arange(windows) * (upto - size) // (windows - 1)
        window = np.searchsorted(starts, rows.settled, side="left") - 1
        rows = rows.where((window >= 0) & (rows.settled <= starts[window] + size))
    seqs: list[int] = rows.seq.tolist()
    return seqs


def read_by(
    frame: TaskFrame, block: Block, parts: Collection[str], by: SplitBy, *, upto: float, before: float
) -> Flags:
    """Which rows of a whole block a training has read: of its parts, what had settled or was decided by then."""
    if not upto or not parts:
        return np.zeros(len(block), dtype=np.bool_)
    settled = (block.first > 0) & (block.first <= upto)
    known = settled | (block.at / 1e6 < before) | frame.undated(block)
    if len(parts) < len(PARTS):
        known &= np.isin(parts_of(frame, block, by), [_CODES[name] for name in parts])
    return known


def but(seqs: Whole, some: Sequence[Whole]) -> Whole:
    """These numbers without some others, in the same order."""
    return seqs[~np.isin(seqs, np.concatenate(some))] if some else seqs

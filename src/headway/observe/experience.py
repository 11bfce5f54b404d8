"""Settled decisions as experience, split into train, tune and prove parts by group or by decision.

A group is an episode, else a text, else a state. By group, two rows that show a policy the same input are in the same
part. A task with few groups is split by decision instead, so that every situation is learned and proven; episodes stay
whole. Where texts are near-copies of one another (a number is different), or states hold an id that never repeats, a
group is what near-copies share (`kin`): a row that a policy has learned by heart is no evidence in other numbers. The
split is a hash, so it needs no table, never changes and is the same in every process; a bundle's header
says how its rows were split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from headway.nouns import SOURCES, Decision, Ending, Floats, Settled, Situation, State, ids
from headway.observe.frame import Block, Flags, Small, TaskFrame, Whole, joined
from headway.observe.part_blocks import BATCH, FirstRows, FrameBlock, PartBlock, without
from headway.observe.query import Query
from headway.observe.rows import dumps

_NUMBERED = re.compile(r"[\w.:-]*\d[\w.:-]*")
_SAMPLE, _LEAST = 2000, 100


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return " ".join(_NUMBERED.sub("#", text.casefold()).split())


def kin_of(text: str, state: State, unrepeated: Collection[str] = ()) -> str:
    """A name that near-copies share. A text without numbers stands alone; otherwise the state belongs to it."""
    plain = _plain(text)
    if text and "#" not in plain:
        return plain
    return f"{plain}\0{dumps({name: value for name, value in state.items() if name not in unrepeated})}"


class Kin:
    """Names for the situations of a task: near-copies share one."""

    def __init__(self, query: Query, task: str) -> None:
        self._fields = unrepeated(query, task)

    def name(self, situation: Situation) -> str:
        return kin_of(situation.text, situation.state, self._fields)


def unrepeated(query: Query, task: str) -> tuple[str, ...]:
    """Fields that hold another id in every decision: words without a space, or whole numbers that only grow."""
    values: dict[str, list[str | int]] = {}
    states = query.latest_states(task, _SAMPLE)
    for state in states:
        for name, value in state.items():
            if (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, str) and " " not in value
            ):
                values.setdefault(name, []).append(value)
    return tuple(
        sorted(name for name, held in values.items() if len(held) == len(states) >= _LEAST and _never_repeats(held))
    )


def _never_repeats(latest_first: list[str | int]) -> bool:
    if len(set(latest_first)) < len(latest_first):
        return False
    if all(isinstance(value, str) for value in latest_first):
        return True
    return all(later > before for later, before in pairwise(latest_first))  # type: ignore[operator]


Part = Literal["train", "tune", "prove"]
SplitBy = str  # "group", "decision", "kin", or "kin without FIELD,FIELD"
FEW_GROUPS = 100  # below this many texts or states, rows are split by decision
PARTS: dict[Part, float] = {"train": 0.5, "tune": 0.1, "prove": 0.4}
LEARNED_PARTS: tuple[Part, ...] = ("train", "tune")  # the part `prove` is kept for evidence
_CODES: dict[str, int] = {name: code for code, name in enumerate(PARTS)}
_MINED = SOURCES.index("mined")
_TRAIN, _TUNE = PARTS["train"], PARTS["train"] + PARTS["tune"]


def split_by(query: Query, task: str) -> SplitBy:
    """How the rows of a task are split: by decision if it has few texts and states outside of episodes."""
    if 0 < query.count_groups(task, most=FEW_GROUPS) < FEW_GROUPS:
        return "decision"
    fields = unrepeated(query, task)
    loose = [one.situation for one in query.latest(task, _SAMPLE) if one.situation.episode is None]
    kin = {kin_of(situation.text, situation.state, fields) for situation in loose}
    if FEW_GROUPS <= len(kin) < len({situation.text or dumps(situation.state) for situation in loose}):
        return f"kin without {','.join(fields)}" if fields else "kin"
    return "group"


def part_of(decision: Decision, by: SplitBy = "group") -> Part:
    """The part that a decision belongs to. It does not depend on the outcome or the time."""
    return _part_of(decision.situation, decision.id, by)


def _part_of(situation: Situation, decision: str, by: SplitBy) -> Part:
    if by == "decision" and situation.episode is None:
        return _part(f"{situation.task}\0\0{decision}")
    if by.startswith("kin") and situation.episode is None:
        fields = by.removeprefix("kin without ").split(",")
        return _part(f"{situation.task}\0{kin_of(situation.text, situation.state, fields)}")
    return part_of_group(situation.task, situation.episode, situation.text, situation.state)


def parts_of(frame: TaskFrame, block: Block, by: SplitBy = "group") -> Small:
    """The part of every row of a whole block, as an index of PARTS."""

    def codes(seqs: Whole) -> bytes:
        numbers = seqs.tolist()
        parts = {
            seq: _CODES[_part_of(situation, ids.text(raw), by)] for seq, raw, situation in frame.situations(numbers)
        }
        return bytes(parts.get(seq, _CODES["prove"]) for seq in numbers)

    return frame.parts(block, by, codes)


def part_of_group(task: str, episode: str | None, text: str, state: State) -> Part:
    """The same, before the decision is made."""
    return _part(f"{task}\0{episode or text or dumps(state)}")


def _part(name: str) -> Part:
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"headway-split").digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "train" if place < _TRAIN else "tune" if place < _TUNE else "prove"


class Weigh(Protocol):
    """The weights of rows by their age."""

    def __call__(self, block: Block, actions: Whole, names: Sequence[str], role: Callable[[int], str]) -> Floats: ...


class Recorded:
    """The rows that learners read: the train and tune parts of a task up to a fixed row. Can be iterated repeatedly.

    Records come in the order in which outcomes became known, batches of columns in the order of the store. `left_out`
    names fields that leak the outcome (`without`). Rows with mined labels are read only if `mined`. `by` is how the
    rows are split into parts. `weigh` gives the weights of rows by their age; rows of weight 0 are left out.
    """

    def __init__(
        self,
        query: Query,
        frame: TaskFrame,
        *,
        upto: int,
        left_out: Sequence[str] = (),
        mined: bool = False,
        by: SplitBy = "group",
        weigh: Weigh | None = None,
    ) -> None:
        self._query = query
        self.task = frame.task
        self.upto = upto
        self.by = by
        self._left_out = tuple(left_out)
        self._mined = mined
        self._weigh = weigh
        self._frame = frame

    def __iter__(self) -> Iterator[Settled]:
        return self._records(LEARNED_PARTS)

    def part(self, name: str) -> Iterator[Settled]:
        assert name in LEARNED_PARTS, f"learners never read {name!r}"
        return self._records((name,))

    def blocks(self, name: str) -> Iterator[PartBlock]:
        """The same rows as `part`, as columns, block by block; in the order of the store."""
        assert name in LEARNED_PARTS, f"learners never read {name!r}"
        for block, weight in self._blocks((name,)):
            yield FrameBlock(self._frame, name, block, weight, self._left_out)

    def head(self, name: str, most: int) -> FirstRows | None:
        """The first rows of a part with a reward; None if there are fewer, so that they are others the next time."""
        seqs = [np.empty(0, dtype=np.int64)]
        for block, _ in self._blocks((name,)):
            seqs.append(block.seq[~np.isnan(block.reward)])
            if sum(one.size for one in seqs) >= most:
                return FirstRows(self._frame, name, np.concatenate(seqs)[:most], self._left_out)
        return None

    def __len__(self) -> int:
        return sum(len(block) for block, _ in self._blocks(LEARNED_PARTS))

    def endings(self) -> dict[str, Ending]:
        """How the task's episodes ended, by name; open episodes are not included."""
        return self._query.endings(self.task)

    def _blocks(self, parts: Sequence[str]) -> Iterator[tuple[Block, Floats]]:
        """The rows of these parts that count, with their weights."""
        frame = self._frame
        codes = [_CODES[name] for name in parts]
        for block in frame.blocks():
            chosen = (block.settled > 0) & (block.settled <= self.upto)
            if not self._mined:
                chosen &= block.source != _MINED
            weight = block.weight
            if self._weigh is not None:
                weight = self._weigh(block, *frame.actions(block), frame.name)
                chosen &= weight > 0.0
            if chosen.any():
                chosen &= np.isin(parts_of(frame, block, self.by), codes)
                yield block.where(chosen), weight[chosen]

    def _records(self, parts: Sequence[str]) -> Iterator[Settled]:
        chosen = [(block.settled, block.seq, weight) for block, weight in self._blocks(parts)]
        if not chosen:
            return
        settled, seqs, weights = (np.concatenate(columns) for columns in zip(*chosen, strict=True))
        order = np.argsort(settled)
        for start in range(0, order.size, BATCH):
            some = order[start : start + BATCH]
            weight_of = dict(zip(seqs[some].tolist(), weights[some].tolist(), strict=True))
            for row in self._query.outcomes(list(weight_of)):
                if row.seq > self.upto:
                    continue  # corrected since
                weight = weight_of[row.decision.seq]
                yield without(row if weight == row.weight else replace(row, weight=weight), self._left_out)


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
) -> Block:
    """Training rows with a reward and known probabilities: the newest, or the first if others are newer."""
    rows = settled_of_parts(frame, parts, by, upto=upto)
    rows = rows.where((rows.seq >= from_decision) & ~np.isnan(rows.reward) & rows.known)
    recent = rows.where(rows.settled > upto - 4 * most)
    return recent.part(-most, len(recent)) if len(recent) else rows.part(0, most)


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

"""What a learner adds up: the rows of a part, block by block of the store, in batches of columns.

for block in Recorded(…).blocks("train"):
    block.kept(about)                                  # what was computed of exactly these rows before
    for batch in block.batches(): …
    block.keep(about, sums)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from headway.nouns import SOURCES, Candidate, Floats, Settled, Situation, State, masked
from headway.observe.frame import HEAD, Block, Flags, TaskFrame, Whole
from headway.observe.rows import BLOCK, STATUSES

BATCH = 2048  # rows of a batch
_MOST_SUMS = 4 << 20  # bytes of what is kept of a part of a block
_KEY = 16


def without(row: Settled, fields: Sequence[str]) -> Settled:
    """The row for a learner, without fields that leak its outcome.

    recent_deltas          removes a field of the state
    text:numbers           replaces every number in the text (or in a named field) with #
    action.NAME            removes a feature of the candidates; `:numbers` works here too
    """
    if not fields:
        return row
    decision = row.decision
    of_action = [field.removeprefix("action.") for field in fields if field.startswith("action.")]
    candidates = decision.candidates
    if of_action:
        candidates = tuple(
            Candidate(candidate.name, _without_fields(candidate.features, of_action)) for candidate in candidates
        )
    situation = situation_without(decision.situation, fields)
    return replace(row, decision=replace(decision, situation=situation, candidates=candidates))


def situation_without(situation: Situation, fields: Sequence[str]) -> Situation:
    state = [field for field in fields if not field.startswith("action.")]
    text = masked(situation.text) if "text:numbers" in state else situation.text
    return replace(situation, text=text, state=_without_fields(situation.state, state))


def _without_fields(values: State, fields: Sequence[str]) -> State:
    return {
        name: masked(value) if f"{name}:numbers" in fields and isinstance(value, str) else value
        for name, value in values.items()
        if name not in fields
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some decisions with a reward, in the order of the store: what a learner adds up at once. One element per row."""

    seq: Whole
    situations: Sequence[Situation]
    offered: Sequence[tuple[str, ...]]  # the names of the candidates
    actions: Sequence[str]
    reward: Floats
    weight: Floats
    propensity: Floats  # 0 if unknown
    known: Flags  # the probabilities of all candidates are known

    def __len__(self) -> int:
        return len(self.situations)

    @classmethod
    def of(cls, rows: Sequence[Settled]) -> Batch:
        """From records; those without a reward are left out."""
        kept = [row for row in rows if row.reward is not None]
        decisions = [row.decision for row in kept]
        return cls(
            seq=np.array([decision.seq for decision in decisions], dtype=np.int64),
            situations=[decision.situation for decision in decisions],
            offered=[tuple([candidate.name for candidate in decision.candidates]) for decision in decisions],
            actions=[decision.action for decision in decisions],
            reward=np.array([row.reward for row in kept], dtype=np.float64),
            weight=np.array([row.weight for row in kept], dtype=np.float64),
            propensity=np.array([decision.propensity for decision in decisions], dtype=np.float64),
            known=np.array([decision.propensity_known for decision in decisions], dtype=np.bool_),
        )


class PartBlock(Protocol):
    """The rows of a part in one block of the store: a learner adds them up by themselves, and then the sums.

    So the sums of a block are kept beside its columns, and equal those that are added up again in every bit.
    """

    rewarded: int  # rows with a reward; of records: so far

    @property
    def counts(self) -> Mapping[str, Any]:
        """All rows by source and status, and the first and the last outcome; of records: so far."""
        ...

    @property
    def actions(self) -> Sequence[str]:
        """The names of the actions that were taken in rows with a reward, sorted."""
        ...

    def batches(self) -> Iterator[Batch]: ...

    def kept(self, about: str) -> Floats | None:
        """What was kept of exactly these rows and outcomes under this description; None if it must be computed."""
        ...

    def keep(self, about: str, sums: Floats) -> None: ...


class _RecordBlock:
    """Records, read once; nothing is kept."""

    actions: Sequence[str] = ()

    def __init__(self, rows: Iterable[Settled]) -> None:
        self._rows, self.rewarded = rows, 0
        self._read = list[tuple[str, str, int]]()

    @property
    def counts(self) -> Mapping[str, Any]:
        return _counts(*map(list, zip(*self._read, strict=True))) if self._read else _counts((), (), ())

    def batches(self) -> Iterator[Batch]:
        some: list[Settled] = []
        for row in self._rows:
            self._read.append((row.decision.source, row.status, row.seq))
            if row.reward is not None:
                some.append(row)
            if len(some) == BATCH:
                self.rewarded += len(some)
                yield Batch.of(some)
                some = []
        if some:
            self.rewarded += len(some)
            yield Batch.of(some)

    def kept(self, about: str) -> Floats | None:
        del about
        return None

    def keep(self, about: str, sums: Floats) -> None:
        """Nothing is kept of records."""


def blocks_of(rows: Iterable[Settled]) -> Iterator[PartBlock]:
    """Records as blocks; in the order of the store, they are cut as those of `Recorded` are."""
    for _, some in groupby(rows, lambda row: row.decision.seq // BLOCK):
        yield _RecordBlock(some)


class FrameBlock:
    """From columns."""

    def __init__(self, frame: TaskFrame, part: str, block: Block, weight: Floats, left_out: Sequence[str]) -> None:
        self._frame, self._part, self._left_out = frame, part, left_out
        rewarded = ~np.isnan(block.reward)
        self._all, self._block, self._weight = block, block.where(rewarded), weight[rewarded]
        self._plain = np.array_equal(weight, block.weight)  # not weighed by age, so that it stays
        self.rewarded, self._number = len(self._block), int(block.seq[0]) // BLOCK if len(block) else 0
        self._codes, self.actions = frame.actions(self._block)
        sources, statuses = [SOURCES[code] for code in block.source.tolist()], block.status.tolist()
        self.counts = _counts(sources, [STATUSES[code] for code in statuses], block.settled.tolist())

    def batches(self) -> Iterator[Batch]:
        for start in range(0, self.rewarded, BATCH):
            yield self._batch(start, min(start + BATCH, self.rewarded))

    def _batch(self, start: int, stop: int) -> Batch:
        frame, block, weight = self._frame, self._block.part(start, stop), self._weight[start:stop]
        codes, seqs = self._codes[start:stop], block.seq.tolist()
        found = {seq: situation for seq, _, situation in frame.situations(seqs)}
        if len(found) < len(seqs):  # deleted since
            there = np.array([seq in found for seq in seqs])
            block, weight, codes = block.where(there), weight[there], codes[there]
        sets = frame.sets(block.candidates)
        situations = [found[seq] for seq in block.seq.tolist()]
        return Batch(
            seq=block.seq,
            situations=[situation_without(one, self._left_out) for one in situations] if self._left_out else situations,
            offered=[sets[number] for number in block.candidates.tolist()],
            actions=[self.actions[code] for code in codes.tolist()],
            reward=block.reward,
            weight=weight,
            propensity=block.propensity,
            known=block.known,
        )

    def kept(self, about: str) -> Floats | None:
        data = _kept(self._frame, self._number, f"sums {self._part}", self._about(about)) if self.rewarded else None
        return None if data is None else np.frombuffer(data, dtype=np.float64)

    def keep(self, about: str, sums: Floats) -> None:
        small = self.rewarded and sums.nbytes <= _MOST_SUMS
        if small and self._plain and self._frame.is_whole(self._number):
            _keep(self._frame, self._number, f"sums {self._part}", self._about(about), sums.tobytes())

    def _about(self, about: str) -> bytes:
        block = self._block
        rows = block.seq.tobytes() + block.settled.tobytes() + self._weight.tobytes()
        return f"{about}\0{self._left_out}\0".encode() + rows


class FirstRows:
    """The rows that a learner fits its features on, and what it found in them."""

    def __init__(self, frame: TaskFrame, part: str, seqs: Whole, left_out: Sequence[str]) -> None:
        self._frame, self._part, self._seqs, self._left_out = frame, part, seqs, left_out

    def situations(self, seqs: Sequence[int]) -> list[Situation]:
        """Those of some of the rows, in this order."""
        found = {seq: situation for seq, _, situation in self._frame.situations(seqs)}
        return [situation_without(found[seq], self._left_out) for seq in seqs if seq in found]

    def kept(self, about: str) -> bytes | None:
        """What was found in exactly these rows under this description; None if they must be read."""
        return _kept(self._frame, HEAD, f"head {self._part}", self._about(about))

    def keep(self, about: str, found: bytes) -> None:
        _keep(self._frame, HEAD, f"head {self._part}", self._about(about), found)

    def _about(self, about: str) -> bytes:
        return f"{about}\0{self._left_out}\0".encode() + self._seqs.tobytes()


def _kept(frame: TaskFrame, number: int, name: str, about: bytes) -> bytes | None:
    """What was computed about exactly this."""
    data = frame.stored(number, name)
    return data[_KEY:] if data is not None and data[:_KEY] == _key(about) else None


def _keep(frame: TaskFrame, number: int, name: str, about: bytes, data: bytes) -> None:
    """Keep what was computed about this, instead of what was under this name."""
    frame.keep(number, {name: _key(about) + data})


def _key(about: bytes) -> bytes:
    return blake2b(about, digest_size=_KEY).digest()


def _counts(sources: Sequence[str], statuses: Sequence[str], settled: Sequence[int]) -> dict[str, Any]:
    """Rows by source and status, and the first and the last outcome."""
    first, last = min(settled, default=None), max(settled, default=None)
    return {"sources": dict(Counter(sources)), "statuses": dict(Counter(statuses)), "first": first, "last": last}

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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from headway.nouns import SOURCES, Candidate, Decision, Ending, Floats, Settled, Situation, State, id_text, masked
from headway.observe.frame import Block, Flags, Small, TaskFrame, Whole
from headway.observe.kin import kin_of, unrepeated
from headway.observe.query import Query
from headway.observe.rows import BLOCK, STATUSES, dumps

Part = Literal["train", "tune", "prove"]
SplitBy = str  # "group", "decision", "kin", or "kin without FIELD,FIELD"
_SAMPLE = 2000  # latest decisions, among which near-copies are looked for
FEW_GROUPS = 100  # below this many texts or states, rows are split by decision
PARTS: dict[Part, float] = {"train": 0.5, "tune": 0.1, "prove": 0.4}
LEARNED_PARTS: tuple[Part, ...] = ("train", "tune")  # the part `prove` is kept for evidence
BATCH = 2048  # rows of a batch
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
            seq: _CODES[_part_of(situation, id_text(raw), by)] for seq, raw, situation in frame.situations(numbers)
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

    situations: Sequence[Situation]
    offered: Sequence[tuple[str, ...]]  # the names of the candidates
    actions: Sequence[str]
    reward: Floats
    weight: Floats
    propensity: Floats  # 0 if unknown
    known: Flags  # the probabilities of all candidates are known
    counts: Mapping[str, Any]  # of all rows that were read for it: by source and status, the first and the last one

    def __len__(self) -> int:
        return len(self.situations)

    @classmethod
    def of(cls, rows: Sequence[Settled]) -> Batch:
        """From records; those without a reward are only counted."""
        kept = [row for row in rows if row.reward is not None]
        decisions = [row.decision for row in kept]
        return cls(
            situations=[decision.situation for decision in decisions],
            offered=[tuple([candidate.name for candidate in decision.candidates]) for decision in decisions],
            actions=[decision.action for decision in decisions],
            reward=np.array([row.reward for row in kept], dtype=np.float64),
            weight=np.array([row.weight for row in kept], dtype=np.float64),
            propensity=np.array([decision.propensity for decision in decisions], dtype=np.float64),
            known=np.array([decision.propensity_known for decision in decisions], dtype=np.bool_),
            counts=_counts(
                [row.decision.source for row in rows], [row.status for row in rows], [row.seq for row in rows]
            ),
        )


def batches_of(rows: Iterable[Settled]) -> Iterator[Batch]:
    """Records as batches; in the order of the store, they are cut as those of `Recorded` are."""
    some: list[Settled] = []
    rewarded = 0
    for row in rows:
        if some and (rewarded == BATCH or row.decision.seq // BLOCK != some[0].decision.seq // BLOCK):
            yield Batch.of(some)
            some, rewarded = [], 0
        some.append(row)
        rewarded += row.reward is not None
    yield Batch.of(some)


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
        task: str,
        *,
        upto: int,
        left_out: Sequence[str] = (),
        mined: bool = False,
        by: SplitBy = "group",
        weigh: Weigh | None = None,
    ) -> None:
        self._query = query
        self.task = task
        self.upto = upto
        self.by = by
        self._left_out = tuple(left_out)
        self._mined = mined
        self._weigh = weigh
        self._frame = query.frame(task)

    def __iter__(self) -> Iterator[Settled]:
        return self._records(LEARNED_PARTS)

    def part(self, name: str) -> Iterator[Settled]:
        assert name in LEARNED_PARTS, f"learners never read {name!r}"
        return self._records((name,))

    def batches(self, name: str) -> Iterator[Batch]:
        """The same rows as `part`, as columns; in the order of the store."""
        assert name in LEARNED_PARTS, f"learners never read {name!r}"
        for block, weight in self._blocks((name,)):
            counts: Mapping[str, Any] = _counts(
                [SOURCES[code] for code in block.source.tolist()],
                [STATUSES[code] for code in block.status.tolist()],
                block.settled.tolist(),
            )
            rewarded = ~np.isnan(block.reward)
            block, weight = block.where(rewarded), weight[rewarded]
            if not len(block):
                yield replace(Batch.of(()), counts=counts)
            for start in range(0, len(block), BATCH):
                cut = np.arange(start, min(start + BATCH, len(block)))
                yield self._batch(block.where(cut), weight[cut], counts)
                counts = {}

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
                weight = self._weigh(block, *frame.actions(block), frame.role)
                chosen &= weight > 0.0
            if chosen.any():
                chosen &= np.isin(parts_of(frame, block, self.by), codes)
                yield block.where(chosen), weight[chosen]

    def _batch(self, block: Block, weight: Floats, counts: Mapping[str, Any]) -> Batch:
        frame = self._frame
        seqs = block.seq.tolist()
        found = {seq: situation for seq, _, situation in frame.situations(seqs)}
        if len(found) < len(seqs):  # deleted since
            there = np.array([seq in found for seq in seqs])
            block, weight = block.where(there), weight[there]
        codes, names = frame.actions(block)
        sets = frame.sets(block.candidates)
        situations = [found[seq] for seq in block.seq.tolist()]
        if self._left_out:
            situations = [situation_without(situation, self._left_out) for situation in situations]
        return Batch(
            situations=situations,
            offered=[sets[number] for number in block.candidates.tolist()],
            actions=[names[code] for code in codes.tolist()],
            reward=block.reward,
            weight=weight,
            propensity=block.propensity,
            known=block.known,
            counts=counts,
        )

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


def _counts(sources: Sequence[str], statuses: Sequence[str], settled: Sequence[int]) -> dict[str, Any]:
    """Rows by source and status, and the first and the last outcome."""
    first, last = min(settled, default=None), max(settled, default=None)
    return {"sources": dict(Counter(sources)), "statuses": dict(Counter(statuses)), "first": first, "last": last}

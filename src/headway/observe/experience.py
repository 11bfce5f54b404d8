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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from headway.nouns import Candidate, Decision, Ending, Settled, Source, State, masked
from headway.observe.kin import kin_of, unrepeated
from headway.observe.query import Query
from headway.observe.rows import dumps

Part = Literal["train", "tune", "prove"]
SplitBy = str  # "group", "decision", "kin", or "kin without FIELD,FIELD"
_SAMPLE = 2000  # latest decisions, among which near-copies are looked for
FEW_GROUPS = 100  # below this many texts or states, rows are split by decision
PARTS: dict[Part, float] = {"train": 0.5, "tune": 0.1, "prove": 0.4}
LEARNED_PARTS: tuple[Part, ...] = ("train", "tune")  # the part `prove` is kept for evidence
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
    situation = decision.situation
    if by == "decision" and situation.episode is None:
        return _part(f"{situation.task}\0\0{decision.id}")
    if by.startswith("kin") and situation.episode is None:
        fields = by.removeprefix("kin without ").split(",")
        return _part(f"{situation.task}\0{kin_of(situation.text, situation.state, fields)}")
    return part_of_group(situation.task, situation.episode, situation.text, situation.state)


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
    decision, situation = row.decision, row.decision.situation
    state = [field for field in fields if not field.startswith("action.")]
    of_action = [field.removeprefix("action.") for field in fields if field.startswith("action.")]
    situation = replace(
        situation,
        text=masked(situation.text) if "text:numbers" in state else situation.text,
        state=_without_fields(situation.state, state),
    )
    candidates = decision.candidates
    if of_action:
        candidates = tuple(
            Candidate(candidate.name, _without_fields(candidate.features, of_action)) for candidate in candidates
        )
    return replace(row, decision=replace(decision, situation=situation, candidates=candidates))


def _without_fields(values: State, fields: Sequence[str]) -> State:
    return {
        name: masked(value) if f"{name}:numbers" in fields and isinstance(value, str) else value
        for name, value in values.items()
        if name not in fields
    }


class Recorded:
    """The rows that learners read: the train and tune parts of a task up to a fixed row. Can be iterated repeatedly.

    `left_out` names fields that leak the outcome (`without`). Rows with mined labels are read only if `mined`. `by`
    is how the rows are split into parts. `weigh` gives the weight of a row, by its age; rows of weight 0 are left out.
    """

    def __init__(
        self,
        query: Query,
        task: str,
        *,
        upto: int,
        source: Source | None = None,
        left_out: Sequence[str] = (),
        mined: bool = False,
        by: SplitBy = "group",
        weigh: Callable[[Settled], float] | None = None,
    ) -> None:
        self._query = query
        self.task = task
        self.upto = upto
        self.by = by
        self._source = source
        self._left_out = tuple(left_out)
        self._mined = mined or source == "mined"
        self._weigh = weigh
        self._length: int | None = None

    def __iter__(self) -> Iterator[Settled]:
        for row in self._rows():
            if part_of(row.decision, self.by) != "prove":
                yield without(row, self._left_out)

    def part(self, name: str) -> Iterator[Settled]:
        assert name in ("train", "tune"), f"learners never read {name!r}"
        for row in self._rows():
            if part_of(row.decision, self.by) == name:
                yield without(row, self._left_out)

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def endings(self) -> dict[str, Ending]:
        """How the task's episodes ended, by name; open episodes are not included."""
        return self._query.endings(self.task)

    def _rows(self) -> Iterator[Settled]:
        for row in self._query.settled(self.task, upto=self.upto):
            source = row.decision.source
            if (self._source is None or source == self._source) and (self._mined or source != "mined"):
                weight = row.weight if self._weigh is None else self._weigh(row)
                if weight == row.weight:
                    yield row  # its part is computed from the whole row: fields are removed afterwards
                elif weight > 0.0:
                    yield replace(row, weight=weight)

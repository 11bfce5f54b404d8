"""Settled decisions as experience: cut into train, tune and prove by group, once and for all.

A group is an episode, else a text, else a state: two rows that show a policy the same thing are never on both sides
of a cut. The cut is a hash, so it needs no table, never changes and is the same in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from headway.nouns.records import Candidate, Decision, Ending, Settled, Source, State
from headway.nouns.words import masked
from headway.observe.query import Query
from headway.observe.rows import dumps

__all__ = ["PARTS", "Part", "Recorded", "part_of", "part_of_group", "without"]

Part = Literal["train", "tune", "prove"]
PARTS: dict[Part, float] = {"train": 0.5, "tune": 0.1, "prove": 0.4}
_TRAIN, _TUNE = PARTS["train"], PARTS["train"] + PARTS["tune"]


def part_of(decision: Decision) -> Part:
    """The part that a decision belongs to, whatever its outcome and whenever it was made."""
    situation = decision.situation
    return part_of_group(situation.task, situation.episode, situation.text, situation.state)


def part_of_group(task: str, episode: str | None, text: str, state: State) -> Part:
    """The same, for what is not a decision yet."""
    group = episode or text or dumps(state)
    digest = hashlib.blake2b(f"{task}\0{group}".encode(), digest_size=8, person=b"headway-split").digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "train" if place < _TRAIN else "tune" if place < _TUNE else "prove"


def without(row: Settled, fields: Sequence[str]) -> Settled:
    """The row as a learner may see it, less what gives its outcome away.

    recent_deltas          a field of the state: gone
    text:numbers           the situation's text (or a field, where one is named): with # for every measurement in it
    action.NAME            a feature of the candidates; `:numbers` likewise
    """
    if not fields:
        return row
    decision, situation = row.decision, row.decision.situation
    state = [each for each in fields if not each.startswith("action.")]
    of_action = [each.removeprefix("action.") for each in fields if each.startswith("action.")]
    situation = replace(
        situation,
        text=masked(situation.text) if "text:numbers" in state else situation.text,
        state=_less(situation.state, state),
    )
    candidates = decision.candidates
    if of_action:
        candidates = tuple(Candidate(each.name, _less(each.features, of_action)) for each in candidates)
    return replace(row, decision=replace(decision, situation=situation, candidates=candidates))


def _less(values: State, fields: Sequence[str]) -> State:
    return {
        name: masked(value) if f"{name}:numbers" in fields and isinstance(value, str) else value
        for name, value in values.items()
        if name not in fields
    }


class Recorded:
    """What learners read: the train and tune parts of a task, up to a fixed row, streamed as often as asked.

    `left_out` names fields that give the outcome away (`without`). Rows with mined labels are read only if `mined`.
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
    ) -> None:
        self._query = query
        self.task = task
        self.upto = upto
        self._source = source
        self._left_out = tuple(left_out)
        self._mined = mined or source == "mined"
        self._length: int | None = None

    def __iter__(self) -> Iterator[Settled]:
        for row in self._rows():
            if part_of(row.decision) != "prove":
                yield without(row, self._left_out)

    def part(self, name: str) -> Iterator[Settled]:
        assert name in ("train", "tune"), f"learners never read {name!r}"
        for row in self._rows():
            if part_of(row.decision) == name:
                yield without(row, self._left_out)

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def endings(self) -> dict[str, Ending]:
        """How the task's episodes ended, by name; one that is still open is not there."""
        return self._query.endings(self.task)

    def _rows(self) -> Iterator[Settled]:
        for row in self._query.settled(self.task, upto=self.upto):
            source = row.decision.source
            if (self._source is None or source == self._source) and (self._mined or source != "mined"):
                yield row  # its part is that of the whole row: fields are left out afterwards

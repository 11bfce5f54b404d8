"""Settled decisions as experience: cut into train, tune and prove by group, once and for all.

A group is an episode, else a text, else a state: two rows that show a policy the same thing are never on both sides
of a cut. The cut is a hash, so it needs no table, never changes and is the same in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal

from headway.nouns.records import Decision, Settled, Source
from headway.observe.query import Query
from headway.observe.rows import dumps

__all__ = ["PARTS", "Part", "Recorded", "part_of"]

Part = Literal["train", "tune", "prove"]
PARTS: dict[Part, float] = {"train": 0.5, "tune": 0.1, "prove": 0.4}
_TRAIN, _TUNE = PARTS["train"], PARTS["train"] + PARTS["tune"]


def part_of(decision: Decision) -> Part:
    """The part that a decision belongs to, whatever its outcome and whenever it was made."""
    situation = decision.situation
    group = situation.episode or situation.text or dumps(situation.state)
    digest = hashlib.blake2b(f"{situation.task}\0{group}".encode(), digest_size=8, person=b"headway-split").digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "train" if place < _TRAIN else "tune" if place < _TUNE else "prove"


class Recorded:
    """What learners read: the train and tune parts of a task, up to a fixed row, streamed as often as asked."""

    def __init__(self, query: Query, task: str, *, upto: int, source: Source | None = None) -> None:
        self._query = query
        self.task = task
        self.upto = upto
        self._source = source
        self._length: int | None = None

    def __iter__(self) -> Iterator[Settled]:
        for row in self._rows():
            if part_of(row.decision) != "prove":
                yield row

    def part(self, name: str) -> Iterator[Settled]:
        assert name in ("train", "tune"), f"learners never read {name!r}"
        for row in self._rows():
            if part_of(row.decision) == name:
                yield row

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def _rows(self) -> Iterator[Settled]:
        for row in self._query.settled(self.task, upto=self.upto):
            if self._source is None or row.decision.source == self._source:
                yield row

"""Tuples of the world `projects` as experience, without a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.kits.next_action.world import Projects
from headway.nouns.records import Settled

__all__ = ["Tuples"]


class Tuples:
    """Rows of the world by part; rows with mined labels are omitted."""

    def __init__(self, world: Projects, rows: int, seed: int = 42) -> None:
        self._rows: dict[str, list[Settled]] = {"train": [], "tune": [], "prove": []}
        history = zip(world.history("next-action", rows, seed, 1e9), world.tuples(rows, seed), strict=True)
        for number, ((decision, signal), row) in enumerate(history):
            if decision.source != "mined":
                settled = Settled(seq=number + 1, decision=decision, reward=signal.value, status="rewarded")
                self._rows[row.part].append(settled)

    def part(self, name: str) -> Sequence[Settled]:
        assert name != "prove"
        return self._rows[name]

    def held_out(self, after: float) -> list[Settled]:
        return [row for row in self._rows["prove"] if row.decision.at > after]

    def __iter__(self) -> Iterator[Settled]:
        yield from self._rows["train"]
        yield from self._rows["tune"]

    def __len__(self) -> int:
        return len(self._rows["train"]) + len(self._rows["tune"])

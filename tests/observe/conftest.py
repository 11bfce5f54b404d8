"""A real store for each test, on both engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headway.nouns import ids
from headway.nouns.records import Candidate, Decision, Situation
from headway.observe.database import Database
from headway.observe.engines import open_database
from headway.observe.query import Query
from headway.observe.store import Store
from headway.observe.writer import Writer

CONFIGS = {"c0": '{"encoder":"hashing-1-128"}'}
ARMS = (Candidate("small"), Candidate("large"))
_clock = itertools.count(1_700_000_000)


def make(task: str = "route", **changes: object) -> Decision:
    """A decision; `text`, `state`, `episode`, `step` and `role` belong to its situation."""
    at = float(next(_clock))
    situation = Situation(task=task, text=str(changes.pop("text", "hello")))
    for name in ("state", "episode", "step", "role"):
        if name in changes:
            situation = replace(situation, **{name: changes.pop(name)})
    base = Decision(
        id=ids.decision(at),
        situation=situation,
        candidates=ARMS,
        probabilities=(0.25, 0.75),
        action="large",
        propensity=0.75,
        policy="uniform@0",
        policy_hash="h0",
        config_hash="c0",
        encoder="hashing-1-128",
        exploration="policy",
        seed=2**64 - 3,
        at=at,
    )
    return replace(base, **changes)


@dataclass
class Ground:
    database: Database
    writer: Writer
    store: Store
    query: Query
    place: Path | str

    @property
    def folder(self) -> Path:
        assert isinstance(self.place, Path), "only SQLite is a file"
        return self.place.parent

    def add(self, *decisions: Decision, opening: bool = False) -> list[Decision]:
        return self.store.add(decisions, CONFIGS, opening=[opening] * len(decisions))


def lay(place: Path | str) -> Ground:
    """Open the store at a URL or a path; the path may be a text, for child processes."""
    database = open_database(place if str(place).startswith("postgresql:") else Path(place))
    writer = Writer(database)
    return Ground(database, writer, Store(database, writer), Query(database), place)


@pytest.fixture
def ground(place: Path | str) -> Iterator[Ground]:
    laid = lay(place)
    yield laid
    laid.writer.close()
    laid.database.close()


@pytest.fixture
def decision() -> Callable[..., Decision]:
    return make

"""Steps of the prompt-mutation service, stored on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.kits.prompts.experiences import ExperienceStore, Step
from headway.nouns.errors import InvalidInput
from headway.observe.database import Database
from headway.observe.engines import open_database


@pytest.fixture
def database(place: Path | str) -> Iterator[Database]:
    opened = open_database(place)
    yield opened
    opened.close()


def step(number: int, width: int = 3, *, done: bool = False) -> Step:
    state = [number + n / 8 for n in range(width)]
    return Step(
        state=state, action=number % 5, reward=number / 4, next_state=state, done=done, log_prob=-1.5, value=0.25
    )


def test_the_newest_steps_come_back_in_order(database: Database) -> None:
    kept = ExperienceStore(database, "mutate-embedded")
    counts = [kept.add(step(number, done=number % 2 == 1), now=100.0 + number, key="agent") for number in range(6)]
    assert counts == [1, 2, 3, 4, 5, 6]
    records = kept.rows(after=0, most=4)
    assert [record.reward for record in records] == [0.5, 0.75, 1.0, 1.25]
    assert list(records[0].state) == [2.0, 2.125, 2.25]
    assert [record.done for record in records] == [False, True, False, True]
    middle = records[1].seq
    assert kept.count(after=middle) == 2
    assert [row.seq for row in kept.rows(after=middle, most=10)] == [record.seq for record in records[2:]]
    totals = kept.totals()
    assert (totals.steps, totals.episodes, totals.mean_reward, totals.most_reward) == (6, 3, 0.625, 1.25)


def test_vectors_are_deleted_and_rewards_stay(database: Database) -> None:
    kept = ExperienceStore(database, "mutate-embedded")
    for number in range(4):
        kept.add(step(number), now=100.0)
    last = kept.last()
    kept.forget(upto=last - 1)
    assert [row.seq for row in kept.rows(after=0, most=10)] == [last]
    assert kept.totals().steps == 4


def test_another_width_is_refused_and_the_policys_width_takes_precedence(database: Database) -> None:
    kept = ExperienceStore(database, "mutate-embedded")
    kept.add(step(1), now=100.0)
    for wrong in (lambda: kept.add(step(2, 4), now=100.0), lambda: kept.add(step(2, 3), now=100.0, width=8)):
        with pytest.raises(InvalidInput) as caught:
            wrong()
        assert caught.value.code == "bad_shape"
    assert kept.count() == 1
    assert kept.add(step(2, 4), now=100.0, after=kept.last()) == 1, "nothing is left of the old width"
    assert ExperienceStore(database, "another").totals().steps == 0

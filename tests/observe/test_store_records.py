"""A record is stored once with its origin; a changed record is a conflict, a late outcome a signal."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from headway.kits.data.record_keys import RecordKeys, Repeats
from headway.kits.data.records import ImportedSignal, Record, Records
from headway.kits.data.store_records import Origin, RecordWriter
from headway.nouns import ids
from headway.nouns.records import Candidate
from tests.observe.conftest import Ground

ARMS = (Candidate("a"), Candidate("b"))


def writer(ground: Ground, file: str = "log.jsonl", sha256: str = "0") -> RecordWriter:
    origin = Origin(file=file, sha256=sha256, format="columns", version="1", task="route", at=1.7e9)
    return RecordWriter(ground.database, ground.query, ground.store, origin)


def record(line: int, **changes: Any) -> Record:
    made = Record(line=line, origin=f"r{line}", action="a", candidates=ARMS, text=f"text {line}", at=1.6e9 + line)
    return structs.replace(made, **changes)


def reward(value: float, **more: Any) -> tuple[ImportedSignal, ...]:
    return (ImportedSignal(name="reward", value=value, **more),)


def rows(ground: Ground, table: str) -> int:
    return int(ground.database.query(f"SELECT COUNT(*) FROM {table}")[0][0])


def test_importing_the_same_rows_again_adds_nothing(ground: Ground) -> None:
    many = [record(line, signals=reward(0.5)) for line in range(1, 60)]
    assert writer(ground).write(Records.of(many)).fates == ["new"] * 59
    assert writer(ground).write(Records.of(many)).fates == ["same"] * 59
    assert writer(ground, "other.jsonl", "1").write(Records.of(many)).fates == ["same"] * 59, (
        "also from a copy of the file"
    )
    assert (rows(ground, "decisions"), rows(ground, "signals"), rows(ground, "imported")) == (59, 59, 59)


def test_the_origin_of_a_row_is_stored(ground: Ground) -> None:
    writer(ground, "day.jsonl", "abc").write(Records.of([record(7, rest="{}")]))
    assert ground.database.query(
        "SELECT f.file, f.sha256, f.format, f.version, i.line, i.origin, i.rest FROM imported i "
        "JOIN imports f ON f.id = i.import_id"
    ) == [("day.jsonl", "abc", "columns", "1", 7, "r7", "{}")]


def test_a_decision_with_unknown_propensity_is_stored(ground: Ground) -> None:
    writer(ground).write(Records.of([record(1), record(2, probabilities=(0.25, 0.75))]))
    unknown, known = ground.query.decisions("route")
    assert (unknown.propensity_known, unknown.propensity, unknown.probabilities) == (False, 0.0, ())
    assert (known.propensity_known, known.propensity) == (True, 0.25)
    assert unknown.source == "imported"


def test_a_changed_row_is_a_conflict_and_is_not_stored(ground: Ground) -> None:
    writer(ground).write(Records.of([record(1)]))
    result = writer(ground, "later.jsonl").write(
        Records.of([record(9, origin="r1", text="another text", at=1.6e9 + 1)])
    )
    assert result.fates == ["conflict"]
    assert result.clashes[0].line == 9
    assert "log.jsonl line 1" in result.clashes[0].message
    assert "(text)" in result.clashes[0].message
    assert rows(ground, "decisions") == 1


def test_two_rows_of_a_file_with_the_same_id_are_a_conflict(ground: Ground) -> None:
    result = writer(ground).write(Records.of([record(1), record(2, origin="r1")]))
    assert result.fates == ["new", "conflict"]


def test_a_later_outcome_is_a_late_signal(ground: Ground) -> None:
    writer(ground).write(Records.of([record(1)]))
    assert writer(ground).write(Records.of([record(1, signals=reward(0.5))])).fates == ["late"]
    assert writer(ground).write(Records.of([record(1, signals=reward(0.5))])).fates == ["same"]
    (decision,) = ground.query.decisions("route")
    assert [signal.value for signal in ground.query.signals(decision.id)] == [0.5]


def test_a_changed_outcome_is_a_conflict(ground: Ground) -> None:
    writer(ground).write(Records.of([record(1, signals=reward(0.5))]))
    result = writer(ground).write(Records.of([record(1, signals=reward(0.7))]))
    assert result.fates == ["conflict"]
    assert "reward = 0.5, now it is 0.7" in result.clashes[0].message
    (decision,) = ground.query.decisions("route")
    assert [signal.value for signal in ground.query.signals(decision.id)] == [0.5]


def test_rows_without_an_id_are_identified_by_content_and_repetition(ground: Ground) -> None:
    same = [record(line, origin="", text="again", at=None) for line in (1, 2, 3)]
    other = record(4, origin="", text="other", at=None)
    assert writer(ground).write(Records.of([*same, other])).fates == ["new"] * 4
    assert writer(ground).write(Records.of([*same, other])).fates == ["same"] * 4
    assert writer(ground).write(Records.of([*same, other, record(5, origin="", text="again", at=None)])).fates == [
        "same"
    ] * 4 + ["new"]


def test_a_preview_stores_nothing(ground: Ground) -> None:
    assert writer(ground).preview(Records.of([record(1)])).fates == ["new"]
    assert (rows(ground, "decisions"), rows(ground, "imports")) == (0, 0)


def test_episodes_keep_their_steps_and_end(ground: Ground) -> None:
    many = [record(n, episode="e", step=n - 1, ending="terminated" if n == 3 else None) for n in (1, 2, 3)]
    assert writer(ground).write(Records.of(many)).fates == ["new"] * 3
    assert writer(ground).write(Records.of(many)).fates == ["same"] * 3
    assert [decision.situation.step for decision in ground.query.decisions("route")] == [0, 1, 2]
    assert ground.database.query("SELECT ending FROM episodes") == [("terminated",)]


def test_a_conflicting_row_does_not_stop_the_others_from_being_stored(ground: Ground) -> None:
    result = writer(ground).write(
        Records.of([record(1, episode="e", step=0), record(2, episode="e", step=0), record(3)])
    )
    assert result.fates == ["new", "conflict", "new"]
    assert "Step 0" in result.clashes[0].message
    assert rows(ground, "imported") == 2


def test_a_deleted_decision_can_be_imported_again(ground: Ground) -> None:
    writer(ground).write(Records.of([record(1)]))
    with ground.database.transaction() as connection:
        connection.execute("DELETE FROM decisions")
    assert writer(ground).write(Records.of([record(1)])).fates == ["new"]


@given(st.lists(st.integers(1, 40), max_size=300))  # not 0: an empty slot is 0, so a hash of 0 counts as 1
def test_repetitions_are_counted_like_in_a_dictionary(numbers: list[int]) -> None:
    repeats, counts = Repeats(), dict[int, int]()
    for number in numbers:
        count = counts.get(number, -1) + 1
        counts[number] = count
        assert repeats.next(number.to_bytes(8, "little")) == count


def test_many_different_contents_are_all_new() -> None:
    repeats = Repeats()
    assert all(repeats.next(n.to_bytes(8, "little")) == 0 for n in range(1, 20_000))
    assert all(repeats.next(n.to_bytes(8, "little")) == 1 for n in range(1, 20_000))


@pytest.mark.parametrize("count", [1, 2, 999, 1001])
def test_batches_of_any_size_are_stored(ground: Ground, count: int) -> None:
    assert writer(ground).write(Records.of([record(n) for n in range(count)])).fates == ["new"] * count
    assert rows(ground, "decisions") == count


@pytest.mark.parametrize("seed", range(4))
def test_what_is_stored_from_columns_equals_the_decision_of_each_record(ground: Ground, seed: int) -> None:
    rng = Random(seed)
    sets = [ARMS, (Candidate("a", {"size": 2}), Candidate("c")), (Candidate("a"),)]
    many = []
    for line in range(150):
        offered = rng.choice(sets)
        chances = rng.choice([None, tuple([1.0 / len(offered)] * len(offered))])
        many.append(
            record(
                line,
                candidates=offered,
                probabilities=chances,
                propensity=None if chances else rng.choice([None, 0.25]),
                action=rng.choice([one.name for one in offered]),
                state=rng.choice([{}, {"n": 1, "deep": [1.5, 2]}]),
                step=rng.choice([None, line]),
                at=rng.choice([None, rng.random() * 1e9]),
                task=rng.choice(["", "other"]),
                role=rng.choice(["", "coder"]),
                policy=rng.choice(["", "bandit@1"]),
                source=rng.choice(["imported", "mined"]),
                signals=tuple(ImportedSignal(name=name, value=rng.random()) for name in ("reward", "cost")[line % 3 :]),
            )
        )
    stored = writer(ground)
    assert stored.write(Records.of(many)).fates == ["new"] * 150
    keyed = RecordKeys("route", "columns", ground.query.keyed_id).of(Records.of(many))
    for place, made in enumerate(many):
        identifier = ids.text(keyed.ids[place])
        assert replace(ground.query.decision(identifier), seq=0) == stored._decision(keyed.row(place))
        assert {one.name: one.value for one in ground.query.signals(identifier)} == made.labels()
    order = [bytes(raw) for (raw,) in ground.database.query("SELECT id FROM decisions ORDER BY seq")]
    assert order == keyed.ids

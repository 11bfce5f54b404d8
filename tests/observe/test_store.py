"""Decisions and signals are stored once and read back unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headway.nouns import ids
from headway.nouns.errors import Conflict, InvalidInput, UnknownName
from headway.nouns.records import Candidate, Signal


def signal(subject, value=1.0, **changes):
    return Signal(**{"subject": subject, "name": "solved", "value": value, "at": 5.0, **changes})


def test_a_stored_decision_is_read_back_unchanged(ground, decision):
    made = decision(
        text="naïve\n✓", state={"c": 0.25, "role": "coder", "recent": [1.0, 2.5]}, role="coder", source="synthetic",
        candidates=(Candidate("a", {"scope": "small"}), Candidate("large")), assigned="bandit@4f2a", state_seq=9,
    )  # fmt: skip
    (stored,) = ground.add(made)
    assert stored == replace(made, seq=stored.seq)
    assert ground.query.decision(made.id) == stored


def test_the_same_request_with_the_same_id_is_stored_once(ground, decision):
    made = decision()
    (first,) = ground.add(made)
    (again,) = ground.add(replace(made, seed=5, action="small", propensity=0.25))
    assert again == first
    assert ground.query.counts("route").decisions == 1


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 130])
def test_a_batch_is_numbered_without_gaps_and_can_be_repeated(ground, decision, count):
    ground.add(decision())
    batch = [decision(text=f"{n}") for n in range(count)]
    stored = ground.add(*batch)
    assert [decision.seq for decision in stored] == list(range(2, 2 + count))
    assert [decision.id for decision in stored] == [decision.id for decision in batch]
    assert ground.add(*batch) == stored
    one_more = decision()
    assert [decision.id for decision in ground.add(*batch, one_more)] == [
        decision.id for decision in (*batch, one_more)
    ]
    assert ground.query.counts("route").decisions == count + 2


@pytest.mark.parametrize(
    "other",
    [
        {"task": "reply"}, {"role": "coder"}, {"step": 4}, {"key": "agent"}, {"source": "synthetic"}, {"state_seq": 9},
        {"policy": "bandit@4f2a"}, {"policy_hash": "h1"}, {"exploration": "greedy"}, {"assigned": "bandit@4f2a"},
        {"draw_id": f"dec_{7:032x}"}, {"state": {"n": 1.0}}, {"candidates": (Candidate("large"), Candidate("huge"))},
        {"probabilities": (0.5, 0.5), "propensity": 0.5}, {"action": "small", "propensity": 0.25}, {"seed": 3},
    ],
)  # fmt: skip
def test_a_batch_of_different_rows_is_read_back_unchanged(ground, decision, other):
    batch = [decision(), decision(**other), decision()]
    stored = ground.add(*batch)
    assert stored == [replace(decision, seq=n + 1) for n, decision in enumerate(batch)]
    assert [ground.query.decision(decision.id) for decision in batch] == stored


def test_another_request_with_the_same_id_is_a_conflict_and_stores_nothing(ground, decision):
    made = decision()
    ground.add(made)
    with pytest.raises(Conflict) as error:
        ground.add(decision(), decision(id=made.id, text="something else"))
    assert error.value.code == "id_conflict"
    assert ground.query.counts("route").decisions == 1, "a batch is atomic"


def test_a_failing_write_does_not_affect_others_in_its_transaction(ground, decision):
    made = decision()
    ground.add(made)
    futures = [ground.store.submit_decisions([decision()], {"c0": "{}"}) for _ in range(20)]
    poison = ground.store.submit_decisions([decision(id=made.id, text="other")], {"c0": "{}"})
    futures += [ground.store.submit_decisions([decision()], {"c0": "{}"}) for _ in range(20)]
    assert all(future.result(10)[0].seq for future in futures)
    with pytest.raises(Conflict):
        poison.result(10)
    assert ground.query.counts("route").decisions == 41


def test_steps_are_counted_and_a_repeated_step_is_refused(ground, decision):
    (first,) = ground.add(decision(episode="e"))
    (second,) = ground.add(decision(episode="e"))
    assert (first.situation.step, second.situation.step) == (0, 1)
    with pytest.raises(Conflict) as error:
        ground.add(decision(episode="e", step=1))
    assert error.value.code == "step_conflict"
    assert "2" in error.value.hint


def test_an_ended_episode_accepts_no_decisions(ground, decision):
    ground.add(decision(episode="e"))
    ground.store.end_episode("route", "e", "terminated", 1.0)
    ground.store.end_episode("route", "e", "terminated", 2.0)
    with pytest.raises(Conflict) as error:
        ground.add(decision(episode="e"))
    assert error.value.code == "episode_ended"
    with pytest.raises(Conflict):
        ground.store.end_episode("route", "e", "truncated", 1.0)


def test_an_episode_belongs_to_the_key_that_opened_it(ground, decision):
    ground.add(decision(episode="e", key="mine"))
    with pytest.raises(Conflict) as error:
        ground.add(decision(episode="e", key="yours"))
    assert error.value.code == "episode_conflict"


def test_only_one_process_opens_an_episode(ground, decision):
    ground.add(decision(episode="e"), opening=True)
    with pytest.raises(Conflict) as error:
        ground.add(decision(episode="e"), opening=True)
    assert error.value.code == "draw_exists"


def test_a_signal_without_a_decision_is_refused_unless_it_is_early(ground, decision):
    made = decision()
    with pytest.raises(UnknownName) as error:
        ground.store.signal([signal(made.id)])
    assert error.value.code == "unknown_decision"
    assert ground.store.signal([signal(made.id)], early=True) == 1
    ground.add(made)
    assert [signal.value for signal in ground.query.signals(made.id)] == [1.0]


def test_a_repeated_signal_counts_once_and_a_new_value_replaces_the_old(ground, decision):
    made = ground.add(decision())[0]
    assert ground.store.signal([signal(made.id)]) == 1
    assert ground.store.signal([signal(made.id)]) == 0
    assert ground.store.signal([signal(made.id, 0.0)]) == 1
    assert ground.store.signal([signal(made.id, 1.0)]) == 1
    assert [signal.value for signal in ground.query.signals(made.id, live=True)] == [1.0]
    assert len(ground.query.signals(made.id)) == 3, "history stays"


def test_a_signal_key_is_idempotent_and_protects_its_value(ground, decision):
    made = ground.add(decision())[0]
    assert ground.store.signal([signal(made.id, key="k")]) == 1
    assert ground.store.signal([signal(made.id, key="k")]) == 0
    with pytest.raises(Conflict) as error:
        ground.store.signal([signal(made.id, 0.5, key="k")])
    assert error.value.code == "signal_conflict"


def test_a_withdrawn_signal_stops_counting(ground, decision):
    made = ground.add(decision())[0]
    ground.store.signal([signal(made.id), signal(made.id, 3.0, rater="bob")])
    ground.store.signal([signal(made.id, None)])
    assert [(signal.rater, signal.value) for signal in ground.query.signals(made.id, live=True)] == [("bob", 3.0)]
    with pytest.raises(InvalidInput) as error:
        ground.store.signal([signal(made.id, None)])
    assert error.value.code == "nothing_to_withdraw"


def test_an_episode_accepts_signals_by_its_computed_id(ground, decision):
    ground.add(decision(episode="e"))
    identifier = ids.episode("route", "e")
    assert ground.store.signal([signal(identifier)]) == 1
    assert ground.query.signals(identifier)[0].subject == identifier


@pytest.mark.parametrize("text", ["", "dec_", "dec_zz", "'; drop table decisions", "x" * 500, ids.episode("a", "b")])
def test_an_invalid_decision_id_is_refused(text):
    with pytest.raises(InvalidInput) as error:
        ids.parse_decision(text)
    assert error.value.code == "bad_id"


def test_ids_sort_by_time():
    made = [ids.decision(1_700_000_000 + step * 0.0013) for step in range(200)]
    assert made == sorted(made)
    assert ids.parse_decision("0197C1F2-a3b4-7000-a1b2-c3d4e5f60718") == "dec_0197c1f2a3b47000a1b2c3d4e5f60718"


values = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12), st.integers(-(2**53), 2**53), st.booleans()
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    state=st.dictionaries(st.text(max_size=8), values, max_size=5),
)
def test_any_text_and_state_are_read_back_unchanged(ground, decision, text, state):
    (stored,) = ground.add(decision(text=text, state=state))
    back = ground.query.decision(stored.id).situation
    assert (back.text, back.state) == (text, state)

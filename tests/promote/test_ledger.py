"""The ledger: append-only, refuses what is stale, and its answers follow from its rows."""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.nouns.errors import Conflict
from headway.observe.database import open_database
from headway.observe.query import Query
from headway.promote.ledger import Entry, Ledger


@pytest.fixture
def ledger(place):
    database = open_database(place)
    yield Ledger(database, Query(database))
    database.close()


def write(ledger, kind, policy, expects=None, task="route", **detail):
    current = ledger.current(task)
    if expects is None:
        expects = current.policy_hash if current else ""
    return ledger.append(
        Entry(
            task=task, kind=kind, policy=f"bandit@{policy}", policy_hash=policy, expects=expects, detail=detail, at=1.0
        )
    )


def test_current_is_the_last_row_that_says_so(ledger):
    assert ledger.current("route") is None
    write(ledger, "candidate", "aaaa")
    write(ledger, "promote", "aaaa")
    write(ledger, "candidate", "bbbb")
    write(ledger, "promote", "bbbb")
    assert ledger.current("route").policy_hash == "bbbb"
    assert ledger.previous("route").policy_hash == "aaaa"
    write(ledger, "rollback", "aaaa")
    assert ledger.current("route").policy_hash == "aaaa"
    assert ledger.states("route") == {"aaaa": "current", "bbbb": "retired"}


def test_a_change_decided_against_another_current_is_stale(ledger):
    write(ledger, "promote", "aaaa")
    with pytest.raises(Conflict) as error:
        write(ledger, "promote", "bbbb", expects="cccc")
    assert error.value.code == "stale_evidence"
    assert len(ledger.entries("route")) == 1


def test_of_two_promotions_at_once_exactly_one_wins(ledger):
    write(ledger, "promote", "aaaa")
    outcomes = []

    def go(policy):
        try:
            write(ledger, "promote", policy, expects="aaaa")
            outcomes.append("won")
        except Conflict:
            outcomes.append("stale")

    threads = [threading.Thread(target=go, args=(f"{number:04x}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["stale"] * 7 + ["won"]


def test_a_canary_lasts_until_a_promotion_or_its_retirement(ledger):
    write(ledger, "candidate", "aaaa")
    write(ledger, "canary", "aaaa", share=0.2)
    assert ledger.canary("route").detail["share"] == 0.2
    write(ledger, "retire", "aaaa")
    assert ledger.canary("route") is None
    write(ledger, "canary", "bbbb", share=0.1)
    write(ledger, "promote", "bbbb")
    assert ledger.canary("route") is None


def test_challengers_count_from_the_last_promotion(ledger):
    for policy in ("aaaa", "bbbb", "aaaa"):
        write(ledger, "candidate", policy)
    assert [each.policy_hash for each in ledger.challengers("route")] == ["aaaa", "bbbb"]
    write(ledger, "promote", "bbbb")
    assert ledger.challengers("route") == []


def test_evidence_is_kept_once_and_found_again(ledger):
    write(ledger, "candidate", "aaaa")
    ledger.keep_evidence("evi_1", "route", "aaaa", {"n": 5}, 1.0)
    ledger.keep_evidence("evi_1", "route", "aaaa", {"n": 6}, 2.0)
    assert ledger.evidence("evi_1") == {"n": 5}
    assert ledger.latest_evidence("route") == "evi_1"
    assert ledger.evidence("evi_2") is None


steps = st.lists(
    st.tuples(st.sampled_from(["candidate", "promote", "rollback", "retire"]), st.sampled_from("abc")), max_size=12
)

numbers = itertools.count()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_replaying_the_rows_gives_the_same_answers(ledger, steps):
    name, current, promoted = f"task-{next(numbers)}", "", []
    for kind, policy in steps:
        write(ledger, kind, policy * 4, task=name)
        if kind in ("promote", "rollback"):
            current = policy * 4
            promoted.append(current)
    entries = ledger.entries(name)
    assert [each.n for each in entries] == list(range(1, len(steps) + 1))
    assert (ledger.current(name).policy_hash if current else "") == current
    before = next((each for each in reversed(promoted) if each != current), None)
    found = ledger.previous(name)
    assert (found.policy_hash if found else None) == before

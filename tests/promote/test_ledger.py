"""The ledger: append-only, refuses what is stale, and its answers follow from its rows."""

from __future__ import annotations

import itertools
import threading
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headway.nouns.errors import Conflict
from headway.observe.engines import open_database
from headway.observe.query import Query
from headway.promote.ledger import Entry, EntryKind, Heads, Ledger


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


def test_the_last_promotion_or_rollback_defines_the_current_policy(ledger):
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


def test_an_experiment_lasts_until_its_end_a_promotion_a_rollback_or_its_retirement(ledger):
    for end in ("experiment", "promote", "rollback", "retire"):
        write(ledger, "experiment", "aaaa", share=0.3)
        assert ledger.experiment("route").share == 0.3
        write(ledger, "retire", "bbbb")
        assert ledger.experiment("route") is not None
        write(ledger, end, "aaaa", share=0.0)
        assert ledger.experiment("route") is None


def test_a_canary_and_an_experiment_exclude_each_other(ledger):
    write(ledger, "canary", "aaaa", share=0.2)
    with pytest.raises(Conflict) as refused:
        write(ledger, "experiment", "bbbb", share=0.3)
    assert refused.value.code == "canary_running"
    write(ledger, "canary", "aaaa", share=0.0)
    write(ledger, "experiment", "bbbb", share=0.3)
    for kind in ("canary", "experiment"):
        with pytest.raises(Conflict) as refused:
            write(ledger, kind, "aaaa", share=0.2)
        assert refused.value.code == "experiment_running"
    assert ledger.experiment("route").policy_hash == "bbbb"


def test_of_two_experiments_started_at_once_exactly_one_wins(ledger):
    outcomes = []

    def go(policy):
        try:
            write(ledger, "experiment", policy, expects="", share=0.3)
            outcomes.append("won")
        except Conflict:
            outcomes.append("refused")

    threads = [threading.Thread(target=go, args=(f"{number:04x}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 3 + ["won"]


def test_challengers_count_from_the_last_promotion(ledger):
    for policy in ("aaaa", "bbbb", "aaaa"):
        write(ledger, "candidate", policy)
    assert [challenger.policy_hash for challenger in ledger.challengers("route")] == ["aaaa", "bbbb"]
    write(ledger, "promote", "bbbb")
    assert ledger.challengers("route") == []


def test_evidence_is_stored_once_and_read_back(ledger):
    write(ledger, "candidate", "aaaa")
    ledger.keep_evidence("evi_1", "route", "aaaa", {"n": 5}, 1.0)
    ledger.keep_evidence("evi_1", "route", "aaaa", {"n": 6}, 2.0)
    assert ledger.evidence("evi_1") == {"n": 5}
    assert ledger.latest_evidence("route") == "evi_1"
    assert ledger.evidence("evi_2") is None


steps = st.lists(
    st.tuples(
        st.sampled_from([kind for kind in get_args(EntryKind) if kind != "test"]),
        st.sampled_from("abc"),
        st.sampled_from([0.0, 0.1]),
    ),
    max_size=16,
)

numbers = itertools.count()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=steps)
def test_every_indexed_query_equals_a_replay_of_all_rows(ledger, steps):
    name = f"task-{next(numbers)}"
    seen = Heads()
    for kind, policy, share in steps:
        detail = {"ended": "closed"} if kind == "alarm" and share else {"share": share}
        if share and _excluded(kind, seen):
            with pytest.raises(Conflict):
                write(ledger, kind, policy * 4, task=name, **detail)
            continue
        written = write(ledger, kind, policy * 4, task=name, **detail)
        assert ledger.entries(name)[-1] == written
        seen = seen.after(written)
    rows = ledger.entries(name)
    assert [row.n for row in rows] == list(range(1, len(rows) + 1))
    live = [row for row in rows if row.kind in ("promote", "rollback", "snapshot")]
    changes = [row for row in rows if row.kind in ("promote", "rollback")]
    since = [row for row in rows if not changes or row.n > changes[-1].n]
    assert ledger.heads(name) == seen
    assert ledger.head(name) == seen.seq == (rows[-1].seq if rows else 0)
    assert ledger.current(name) == seen.current == (live[-1] if live else None)
    assert seen.expects == (live[-1].policy_hash if live else "")
    before = [row for row in changes if row.policy_hash != changes[-1].policy_hash]
    assert ledger.previous(name) == (before[-1] if before else None)
    assert ledger.canary(name) == seen.canary == _acting(since, "canary")
    assert ledger.experiment(name) == seen.experiment == _acting(since, "experiment")
    assert seen.canary is None or seen.experiment is None
    assert ledger.plan(name) == seen.plan == next((row for row in reversed(since) if row.kind == "plan"), None)
    alarms = [row for row in since if row.kind == "alarm"]
    assert seen.alarm == (alarms[-1] if alarms and "ended" not in alarms[-1].detail else None)
    learned = [row for row in rows if row.kind == "candidate"]
    assert ledger.last(name, "candidate") == seen.candidate == (learned[-1] if learned else None)
    assert ledger.entries(name, "candidate") == learned
    challengers = [row.policy_hash for row in since if row.kind == "candidate"]
    assert [row.policy_hash for row in ledger.challengers(name)] == list(dict.fromkeys(challengers))
    states = ledger.states(name)
    assert {policy * 4: ledger.state(name, policy * 4) for policy in "abc"} == {
        policy * 4: states.get(policy * 4) for policy in "abc"
    }


def _excluded(kind, seen):
    """Whether what acts on a share already excludes the start of another."""
    return (kind in ("canary", "experiment") and seen.experiment) or (kind == "experiment" and seen.canary)


def _acting(since, kind):
    """The canary or experiment that acts after these rows, none of which is a promotion or a rollback."""
    acting = None
    for row in since:
        if row.kind == kind:
            acting = row if row.detail["share"] else None
        elif row.kind == "retire" and acting is not None and row.policy_hash == acting.policy_hash:
            acting = None
        elif row.kind == "candidate" and acting is not None and row.policy_hash != acting.policy_hash:
            acting = None if kind == "experiment" else acting
    return acting


QUESTIONS = ("head", "heads", "current", "previous", "canary", "experiment", "plan", "challengers", "latest_evidence")


@pytest.mark.engines("sqlite")
def test_no_query_reads_more_rows_on_a_longer_ledger(ledger):
    def extend(rows):
        with ledger._database.transaction() as connection:
            for number in range(rows):
                digest = f"{number:064x}"
                for task in ("route", "other"):
                    kind = ("candidate", "shadow", "retire", "plan")[number % 4]
                    ledger.write(connection, Entry(task=task, kind=kind, policy="bandit@0000", policy_hash=digest))

    def steps_of(question):
        counted = 0

        def count():
            nonlocal counted
            counted += 1

        reader = ledger._database.reader()
        reader.set_progress_handler(count, 1)
        getattr(ledger, question)("route")
        reader.set_progress_handler(None, 0)
        return counted

    write(ledger, "promote", "aaaa")
    extend(40)
    write(ledger, "promote", "bbbb")
    write(ledger, "candidate", "cccc")
    write(ledger, "canary", "cccc", share=0.1)
    short = {question: steps_of(question) for question in QUESTIONS}
    extend(4000)
    write(ledger, "promote", "dddd")
    write(ledger, "candidate", "cccc")
    write(ledger, "canary", "cccc", share=0.1)
    assert {question: steps_of(question) for question in QUESTIONS} == pytest.approx(short, rel=0.1)


def test_a_shadow_is_next_until_a_candidate_follows_it(ledger):
    write(ledger, "candidate", "a")
    write(ledger, "shadow", "b")
    shadow = write(ledger, "shadow", "c")
    assert ledger.heads("route").shadow == shadow
    assert (ledger.state("route", "c"), ledger.states("route")["c"]) == ("shadow", "shadow")
    write(ledger, "candidate", "c")
    heads = ledger.heads("route")
    assert heads.shadow is None
    assert heads.candidate.policy_hash == "c"
    assert (ledger.state("route", "c"), ledger.states("route")["c"]) == ("candidate", "candidate")
    assert ledger.first("route", "c").n == shadow.n, "it had read its rows when it was learned, not when its turn came"

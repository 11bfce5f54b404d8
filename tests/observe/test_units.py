"""Requests and episodes: several decisions with one outcome, of which the first one counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from headway.nouns import ids
from headway.nouns.records import Outcome, Signal
from headway.observe.draws import draws_of
from headway.observe.engines import open_database
from headway.observe.lags import change_lags
from headway.observe.query import Query
from headway.observe.rater_signals import RaterSignals
from headway.observe.settler import settle
from headway.observe.totals import keep_totals

NOW = 2_000_000_000.0


def judge(seq, signals, age_s):
    if signals.get("failed"):
        return Outcome(status="failed", reward=-1.0)
    if "solved" in signals:
        return Outcome(status="rewarded", reward=signals["solved"])
    return Outcome(status="pending", reward=None)


def run(ground):
    return settle(ground.database, ground.query, "route", judge=judge, version="v1", now=NOW, wait_s=None)


def give(ground, subject, rater="", label="", at=1.0, **values):
    ground.store.signal(
        [
            Signal(subject=subject, name=name, value=value, rater=rater, label=label, at=at)
            for name, value in values.items()
        ]
    )


def link(ground, later, before):
    give(ground, later.id, rater="proxy:", label=before.id, attempt=2.0)


def outcomes(ground):
    return {row.decision.id: (row.status, row.reward) for row in ground.query.settled("route")}


def request(ground, decision, *more):
    """A request that was answered at the last of these attempts: each costs something, all but the last fail."""
    made = ground.add(*(decision(**changes) for changes in ({}, *more)))
    for before, attempt in pairwise(made):
        give(ground, before.id, rater="proxy:", failed=1.0, cost_usd=0.5, latency_s=2.0, http_status=500.0)
        link(ground, attempt, before)
    give(ground, made[-1].id, rater="proxy:", cost_usd=1.0, latency_s=3.0, http_status=200.0)
    return made


def test_the_outcome_of_a_request_is_the_last_attempts_and_its_cost_that_of_all(ground, decision):
    first, second, third = request(ground, decision, {}, {})
    give(ground, third.id, rater="ana", solved=1.0)
    run(ground)
    assert outcomes(ground) == {first.id: ("rewarded", 1.0)}
    whole = {"cost_usd": 2.0, "latency_s": 7.0, "http_status": 200.0, "solved": 1.0, "attempt": 2.0}
    assert ground.query.values([ids.raw(first.id)]) == {ids.raw(first.id): whole}
    stored = [ground.query.decision(one.id) for one in (first, second, third)]
    assert [(one.unit, one.position, one.draw_id) for one in stored] == [
        ("", 0, ""),
        (first.id, 1, first.id),
        (first.id, 2, first.id),
    ]


def test_a_request_that_nobody_answered_has_failed_once(ground, decision):
    first, second = request(ground, decision, {})
    give(ground, second.id, rater="proxy:", failed=1.0)
    run(ground)
    assert outcomes(ground) == {first.id: ("failed", -1.0)}
    counts = ground.query.counts("route")
    assert (counts.decisions, counts.units) == (1, 1)
    assert counts.by_status == {"pending": 0, "rewarded": 0, "failed": 1, "censored": 0}


def test_a_rating_of_any_attempt_rates_the_request(ground, decision):
    first, _ = request(ground, decision, {})
    give(ground, first.id, rater="ana", solved=0.25)
    run(ground)
    assert outcomes(ground) == {first.id: ("rewarded", 0.25)}


def test_attempts_are_no_draws_and_their_raters_are_the_requests(ground, decision):
    first, second = request(ground, decision, {})
    give(ground, second.id, rater="ana", solved=1.0)
    give(ground, second.id, rater="bo", solved=0.0)
    run(ground)
    assert draws_of(ground.query.frame("route")).seq.tolist() == [first.seq]
    (row,) = ground.query.outcomes([first.seq], raters={"solved"})
    assert row.said == {"ana": (("solved", 1.0),), "bo": (("solved", 0.0),)}
    reader = RaterSignals(ground.database, ["solved", "failed"])
    (said,) = reader.of([(ids.raw(first.id), "route", None, "rewarded")])
    assert said == row.said


def test_an_outcome_that_was_settled_before_the_link_came_is_taken_back(ground, decision):
    first, second = ground.add(decision(), decision())
    give(ground, first.id, failed=1.0)
    give(ground, second.id, solved=1.0)
    run(ground)
    assert len(outcomes(ground)) == 2
    keep_totals(ground.database, ground.query.name_id("task", "route"))
    link(ground, second, first)
    run(ground)
    assert {one: status for one, (status, _) in outcomes(ground).items() if status != "pending"} == {
        first.id: "rewarded"
    }
    counts = ground.query.counts("route")
    assert counts.by_status == {"pending": 0, "rewarded": 1, "failed": 0, "censored": 0}
    assert ground.query.count_settled("route") == 1
    assert ground.query.count_settled("route", after=1) == 0


@pytest.mark.parametrize("label", ["", "dec_no", "dec_" + "0" * 32])
def test_a_link_to_nothing_folds_nothing_that_counts(ground, decision, label):
    (made,) = ground.add(decision())
    give(ground, made.id, rater="proxy:", label=label, attempt=2.0)
    stored = ground.query.decision(made.id)
    assert stored.position == (1 if label == "dec_" + "0" * 32 else 0)  # the first attempt was deleted: no draw is left


def test_a_link_to_itself_or_to_a_later_one_folds_nothing(ground, decision):
    first, second = ground.add(decision(), decision())
    link(ground, first, second)
    link(ground, first, first)
    assert draws_of(ground.query.frame("route")).seq.tolist() == [first.seq, second.seq]


def test_a_store_of_the_previous_version_folds_its_linked_attempts(ground, place, decision):
    first, second = request(ground, decision, {})
    give(ground, second.id, solved=1.0)
    (alone,) = ground.add(decision())
    give(ground, alone.id, solved=0.5)
    with ground.database.transaction() as connection:  # as the previous version left it
        connection.execute("UPDATE decisions SET draw = NULL")
        connection.execute("DROP INDEX decisions_by_unit")
        for name in ("unit", "position"):
            connection.execute(f"ALTER TABLE decisions DROP COLUMN {name}")
        connection.execute("DELETE FROM migrations WHERE name = '0014_units'")
        version = connection.execute("INSERT INTO names (kind, name) VALUES ('reward_version', 'v1') RETURNING id")
        (number,) = version.fetchone()
        for made, reward in ((first, -1.0), (second, 1.0), (alone, 0.5)):
            connection.execute(
                "INSERT INTO settled (task_id, decision, reward, status, version_id, clipped, at) "
                "SELECT task_id, seq, ?, ?, ?, 0, at FROM decisions WHERE seq = ?",
                (reward, 2 if reward < 0 else 1, number, made.seq),
            )
    again = open_database(place)
    ground = replace(ground, database=again, query=Query(again))
    assert run(ground) == 1
    assert {one: status for one, (status, _) in outcomes(ground).items() if status != "pending"} == {
        first.id: "rewarded",
        alone.id: "rewarded",
    }
    log = [(row.decision.id, row.reward) for row in ground.query.log("route")]
    assert log[3:] == [(second.id, None), (first.id, 1.0)]
    assert ground.query.counts("route").units == 2
    again.close()


def test_the_steps_of_an_episode_share_its_outcome_and_count_once(ground, decision):
    unit = ids.episode("route", "e1")
    made = ground.add(*(decision(episode="e1", unit=unit) for _ in range(3)))
    assert [(one.unit, one.position) for one in made] == [(unit, 0), (unit, 1), (unit, 2)]
    for one in made:
        give(ground, one.id, cost_usd=1.0, solved=0.25)
    run(ground)
    assert set(outcomes(ground).values()) == {("rewarded", 0.25)}
    give(ground, unit, solved=1.0)
    run(ground)
    assert outcomes(ground) == dict.fromkeys((one.id for one in made), ("rewarded", 1.0))
    assert ground.query.values([ids.raw(made[0].id)])[ids.raw(made[0].id)] == {"cost_usd": 3.0, "solved": 1.0}
    counts = ground.query.counts("route")
    assert (counts.decisions, counts.units, counts.by_status["rewarded"]) == (3, 1, 1)
    assert draws_of(ground.query.frame("route")).seq.tolist() == [made[0].seq]
    assert ground.query.count_settled("route") == 1


def test_a_signal_of_one_step_settles_every_step_again(ground, decision):
    unit = ids.episode("route", "e1")
    made = ground.add(*(decision(episode="e1", unit=unit) for _ in range(2)))
    give(ground, made[0].id, solved=0.0)
    run(ground)
    give(ground, made[1].id, solved=1.0)
    assert run(ground) == 2
    assert set(outcomes(ground).values()) == {("rewarded", 1.0)}


def test_changes_of_a_units_outcome_are_seen_in_all_of_its_decisions(ground, decision):
    made = ground.add(*(decision() for _ in range(200)))
    for before, attempt in zip(made[::2], made[1::2], strict=True):
        link(ground, attempt, before)
        give(ground, before.id, at=before.at + 1.0, solved=0.0)
        give(ground, attempt.id, at=before.at + 500.0, solved=1.0)
    lags = change_lags(
        ground.database, ground.query, "route", names=frozenset({"solved"}), reward_after_s=60.0, now=made[-1].at + 1e5
    )
    assert lags.final == {"large": pytest.approx(500.0)}


def test_the_same_word_of_the_same_key_gives_the_same_id():
    def of(task: str, key: str, name: str, secret: bytes = b"s") -> str:
        return ids.keyed(task, key, name, secret=secret)

    assert of("route", "ana", "r-1") == of("route", "ana", "r-1") != of("route", "ana", "r-1", b"t")
    made = {of(task, key, name) for task in ("a", "b") for key in ("", "k") for name in ("r-1", "r-2")}
    assert len(made) == 8
    assert all(one.startswith("dec_") and one[16] == "8" for one in made)

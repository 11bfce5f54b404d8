"""Settling: when outcomes become known, and how they change."""

from __future__ import annotations

import pytest

from headway.nouns import ids
from headway.nouns.records import Outcome, Signal
from headway.observe.experience import PARTS, Recorded, part_of
from headway.observe.settler import settle
from headway.observe.store import Store

NOW = 2_000_000_000.0


def judge(seq, signals, age_s):
    if signals.get("failed"):
        return Outcome(status="failed", reward=-1.0)
    if "solved" in signals:
        return Outcome(status="rewarded", reward=signals["solved"])
    return Outcome(status="censored", reward=None) if age_s > 10 else Outcome(status="pending", reward=None)


def run(ground, *, wait_s=None, again=False, judge=judge):
    return settle(
        ground.database, ground.query, "route", judge=judge, version="v1", now=NOW, wait_s=wait_s, again=again
    )


def give(ground, subject, value=1.0, name="solved", early=False, **changes):
    ground.store.signal([Signal(subject=subject, name=name, value=value, at=1.0, **changes)], early=early)


def rewards(ground, **options):
    return [(row.status, row.reward) for row in ground.query.settled("route", **options)]


def no_wait(seq, signals, age_s):
    return judge(seq, signals, 0.0)


def test_a_decision_settles_once_when_its_signal_arrives(ground, decision):
    made = ground.add(decision(), decision())
    assert run(ground, judge=no_wait) == 0
    give(ground, made[0].id)
    assert run(ground, judge=no_wait) == 1
    assert run(ground, judge=no_wait) == 0
    assert rewards(ground) == [("rewarded", 1.0)]
    assert ground.query.counts("route").by_status == {"pending": 1, "rewarded": 1, "failed": 0, "censored": 0}


def test_rewards_settle_in_the_order_in_which_they_become_known(ground, decision):
    first, second = ground.add(decision(), decision())
    give(ground, second.id, 0.2)
    run(ground, judge=no_wait)
    give(ground, first.id, 0.1)
    run(ground, judge=no_wait)
    assert rewards(ground) == [("rewarded", 0.2), ("rewarded", 0.1)]


def test_an_early_signal_counts_once_its_decision_arrives(ground, decision):
    ground.store = Store(ground.database, ground.writer, lambda: NOW)
    made = decision()
    give(ground, made.id, early=True)
    ground.add(decision())
    assert run(ground, judge=no_wait) == 0
    ground.add(made)
    assert run(ground, judge=no_wait) == 1


def test_a_changed_signal_replaces_the_row_and_the_log_keeps_both(ground, decision):
    made = ground.add(decision())[0]
    give(ground, made.id, 1.0)
    run(ground)
    give(ground, made.id, 0.0)
    run(ground)
    assert rewards(ground) == [("rewarded", 0.0)]
    log = list(ground.query.log("route"))
    assert [(row.reward, row.replaces) for row in log] == [(1.0, None), (0.0, log[0].seq)]
    assert ground.query.count_settled("route") == 1


def test_a_withdrawn_signal_makes_the_decision_pending_again(ground, decision):
    made = ground.add(decision())[0]
    give(ground, made.id)
    run(ground, judge=no_wait)
    give(ground, made.id, None)
    run(ground, judge=no_wait)
    assert rewards(ground) == [("pending", None)]


def test_a_decision_without_signals_is_censored_and_a_late_reward_still_counts(ground, decision):
    made = ground.add(decision(), decision(at=NOW - 5))
    assert run(ground, wait_s=10) == 1
    assert rewards(ground) == [("censored", None)]
    give(ground, made[0].id, 0.7)
    assert run(ground, wait_s=10) == 1
    assert rewards(ground) == [("rewarded", 0.7)]
    give(ground, made[1].id, 0.3)
    run(ground, wait_s=10)
    assert rewards(ground) == [("rewarded", 0.7), ("rewarded", 0.3)]


def test_a_failed_call_has_the_outcome_failed(ground, decision):
    made = ground.add(decision())[0]
    give(ground, made.id, 1.0, name="failed")
    run(ground)
    assert rewards(ground) == [("failed", -1.0)]


def test_a_sticky_episode_settles_once_with_the_signals_of_all_its_decisions(ground, decision):
    (drawn,) = ground.add(decision(episode="e"))
    (later,) = ground.add(decision(episode="e", draw_id=drawn.id))
    give(ground, later.id, 0.0)
    run(ground)
    give(ground, drawn.id, 1.0)
    run(ground)
    assert rewards(ground) == [("rewarded", 0.5)]
    give(ground, ids.episode("route", "e"), 0.8, name="solved", rater="judge")
    run(ground)
    assert rewards(ground)[0][1] == (0.0 + 1.0 + 0.8) / 3
    assert ground.query.counts("route").by_status["pending"] == 0


def test_rescoring_judges_every_decision_again_and_changes_no_signal(ground, decision):
    made = ground.add(*[decision() for _ in range(5)])
    for stored in made:
        give(ground, stored.id, 0.5)
    run(ground)
    before = [ground.query.signals(stored.id) for stored in made]
    doubled = lambda seq, signals, age: Outcome(status="rewarded", reward=2 * signals["solved"])  # noqa: E731
    assert run(ground, again=True, judge=doubled) == 5
    assert rewards(ground) == [("rewarded", 1.0)] * 5
    assert [ground.query.signals(stored.id) for stored in made] == before


def test_the_signals_of_another_task_are_not_settled(ground, decision):
    mine, other = ground.add(decision(), decision(task="other"))
    give(ground, other.id)
    give(ground, mine.id)
    assert run(ground) == 1


def test_parts_are_fixed_by_group_and_learners_never_see_prove(ground, decision):
    made = ground.add(*[decision(text=f"prompt {i % 300}") for i in range(600)])
    for stored in made:
        give(ground, stored.id)
    run(ground)
    experience = Recorded(ground.query, ground.query.frame("route"), upto=ground.query.last_settled("route"))
    assert {part_of(row.decision) for row in experience} == {"train", "tune"}
    assert len(experience) == len(list(experience.part("train"))) + len(list(experience.part("tune")))
    parts = {}
    for stored in made:
        parts.setdefault(stored.situation.text, set()).add(part_of(stored))
    assert all(len(part) == 1 for part in parts.values()), "one prompt is never in two parts"
    shares = {name: sum(part == {name} for part in parts.values()) / 300 for name in PARTS}
    assert all(abs(shares[name] - share) < 0.14 for name, share in PARTS.items())


@pytest.mark.engines("sqlite", why="steps of its virtual machine can be counted")
def test_settling_a_page_costs_the_same_in_a_large_store(ground, decision):
    """Counted in steps of SQLite, so that it does not depend on the machine."""
    costs = []
    for _ in range(2):
        ground.add(*[decision() for _ in range(4000)])
        run(ground, judge=no_wait)
        made = ground.add(*[decision() for _ in range(50)])
        for stored in made:
            give(ground, stored.id)
        steps = 0

        def step():
            nonlocal steps
            steps += 1
            return 0

        ground.database.reader().set_progress_handler(step, 100)
        run(ground, judge=no_wait)
        ground.database.reader().set_progress_handler(None, 0)
        costs.append(steps)
    assert costs[1] < 1.5 * costs[0], costs

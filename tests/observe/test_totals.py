"""Totals by day equal a count of the whole log, whatever was written, withdrawn, replaced and deleted, and when."""

from __future__ import annotations

from random import Random

import pytest

from headway.nouns.records import Signal
from headway.observe import totals
from headway.observe.erase import DeletionFilter, erase, plan_deletion
from headway.observe.totals import by_day, daily_totals, keep_totals
from tests.observe.test_settle import no_wait, run

DAY_S = 86_400.0
START = 1_700_000_000.0


def counted_by_hand(ground):
    """The figures of `totals_of`, by reading every row."""
    decisions = list(ground.query.decisions("route"))
    outcomes = [ground.query.outcome(decision) for decision in decisions]
    rewards = [outcome.reward for outcome in outcomes if outcome.reward is not None]
    first = "SELECT COUNT(*) FROM settled WHERE task_id = ? AND replaces IS NULL"
    return {
        "decisions": len(decisions),
        "signals": sum(len(ground.query.signals(decision.id, live=True)) for decision in decisions),
        "status": {name: sum(outcome.status == name for outcome in outcomes) for name in ("rewarded", "failed")},
        "rewards": len(rewards),
        "reward_sum": pytest.approx(sum(rewards)),
        "first": min((decision.at for decision in decisions), default=None),
        "last": max((decision.at for decision in decisions), default=None),
        "actions": {"large": len(decisions)} if decisions else {},
        "settled": ground.database.query(first, (ground.query.name_id("task", "route"),))[0][0],
        "days": {
            int(at // DAY_S): sum(decision.at // DAY_S == at // DAY_S for decision in decisions)
            for at in {decision.at for decision in decisions}
        },
    }


def totals_of(ground):
    counts, rows = ground.query.counts("route"), daily_totals(ground.database, ground.query.name_id("task", "route"))
    return {
        "decisions": counts.decisions,
        "signals": counts.signals,
        "status": {name: counts.by_status[name] for name in ("rewarded", "failed")},
        "rewards": sum(row.rewards for row in rows),
        "reward_sum": sum(row.reward_sum for row in rows),
        "first": counts.first_at,
        "last": counts.last_at,
        "actions": ground.query.by_action("route"),
        "settled": ground.query.count_settled("route"),
        "days": {row.day: row.decisions for row in rows},
    }


class History:
    """Random writes: decisions of two tasks, early signals, new values, withdrawals, failures, deletions."""

    def __init__(self, ground, decision, seed):
        self.ground, self.random, self.decision = ground, Random(seed), decision
        self.known = []
        self.early = [self.made() for _ in range(3)]
        for made in self.early:
            self.signal(made.id, 1.0, early=True)

    def made(self, task="route"):
        return self.decision(task=task, at=START + self.random.randrange(5) * DAY_S)

    def signal(self, subject, value, *, rater="a", name="solved", early=False):
        row = Signal(subject=subject, name=name, value=value, rater=rater, at=1.0)
        self.ground.store.signal([row], early=early)

    def write(self):
        kind = self.random.random()
        if kind < 0.35 or not self.known:
            self.known += self.ground.add(*(self.made(self.random.choice(["route", "other"])) for _ in range(3)))
        elif kind < 0.7:
            name = self.random.choice(["solved", "solved", "failed"])
            self.signal(
                self.random.choice(self.known).id, self.random.random(), rater=self.random.choice("ab"), name=name
            )
        elif kind < 0.85:
            subject = self.random.choice(self.known).id
            for signal in self.ground.query.signals(subject, live=True)[:1]:
                self.signal(subject, None, rater=signal.rater, name=signal.name)
        elif self.early and kind < 0.95:
            self.known += self.ground.add(self.early.pop())
        elif self.known:
            gone = self.known.pop(self.random.randrange(len(self.known)))
            wanted = DeletionFilter(decision=gone.id)
            matched = plan_deletion(self.ground.database, wanted)
            with self.ground.database.transaction() as connection:
                erase(connection, wanted, matched)


@pytest.mark.parametrize("seed", range(3))
def test_totals_equal_a_count_of_every_row_at_every_moment(ground, decision, monkeypatch, seed):
    random = Random(seed)
    monkeypatch.setattr(totals, "_TAIL", random.choice([0, 3]))
    monkeypatch.setattr(totals, "_PAGE", random.choice([2, 5]))
    history = History(ground, decision, seed)
    for step in range(40):
        history.write()
        run(ground, judge=no_wait)
        if random.random() < 0.5:
            keep_totals(ground.database, ground.query.name_id("task", "route"))
        assert totals_of(ground) == counted_by_hand(ground), step


def test_the_totals_by_day_are_stored_and_only_later_rows_are_read(ground, decision, monkeypatch):
    monkeypatch.setattr(totals, "_TAIL", 0)
    made = ground.add(*(decision(at=START + day * DAY_S) for day in range(3)))
    ground.store.signal([Signal(subject=made[0].id, name="solved", value=1.0, at=1.0)])
    run(ground, judge=no_wait)
    keep_totals(ground.database, ground.query.name_id("task", "route"))
    with ground.database.transaction() as connection:  # unseen from now on: behind the mark
        connection.execute("UPDATE decisions SET at = 0")
    ground.add(decision(at=START + 2 * DAY_S))
    days = by_day(ground.database, ground.query.name_id("task", "route"), since=START)
    assert [(day.decisions, day.signals, day.rewarded, day.reward) for day in days] == [
        (1, 1, 1, 1.0),
        (1, 0, 0, None),
        (2, 0, 0, None),
    ]

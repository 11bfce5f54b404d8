"""Decisions are found by every condition, alone and together, in pages that miss and repeat nothing."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from headway.nouns.records import Signal
from headway.observe import search
from headway.observe.search import DecisionFilter, find_decisions
from tests.observe.test_settle import no_wait, run

START = 1_700_000_000.0


@pytest.fixture
def filled(ground, decision):
    random = Random(5)
    for place in range(60):
        arm = random.choice(["small", "large"])
        (made,) = ground.add(
            decision(
                task=random.choice(["route", "other"]),
                text=random.choice(["A refund, please", "50% off_now", "Hello"]),
                action=arm,
                at=START + place,
                policy=random.choice(["uniform@0", "bandit@1"]),
            )
        )
        if random.random() < 0.7:
            name = random.choice(["solved", "solved", "failed"])
            ground.store.signal([Signal(subject=made.id, name=name, value=random.random(), at=1.0)])
        if random.random() < 0.2:  # a later value replaces the outcome
            ground.store.signal([Signal(subject=made.id, name="solved", value=random.random(), at=2.0)])
    run(ground, judge=no_wait)
    return ground


WANTED = [
    DecisionFilter(),
    DecisionFilter(task="route"),
    DecisionFilter(text="REFUND"),
    DecisionFilter(text="50% off_"),
    DecisionFilter(text="5_%"),
    DecisionFilter(task="route", action="large"),
    DecisionFilter(policy="bandit@1", status="pending"),
    DecisionFilter(status="failed"),
    DecisionFilter(reward_from=0.3, reward_to=0.7),
    DecisionFilter(since=START + 10, until=START + 30, action="small"),
    DecisionFilter(task="unknown"),
]


def matches(wanted, decision, outcome):
    conditions = [
        (wanted.task, decision.task == wanted.task),
        (wanted.text, wanted.text is not None and wanted.text.lower() in decision.situation.text.lower()),
        (wanted.action, decision.action == wanted.action),
        (wanted.policy, decision.policy == wanted.policy),
        (wanted.status, outcome.status == wanted.status),
        (wanted.reward_from, outcome.reward is not None and outcome.reward >= (wanted.reward_from or 0)),
        (wanted.reward_to, outcome.reward is not None and outcome.reward <= (wanted.reward_to or 0)),
        (wanted.since, decision.at >= (wanted.since or 0)),
        (wanted.until, decision.at < (wanted.until or 0)),
    ]
    return all(held for given, held in conditions if given is not None)


@pytest.mark.parametrize("size", [(3, 2), (200, 7)], ids=["small steps", "one step"])
def test_pages_together_hold_exactly_what_matches(filled, monkeypatch, size):
    step, limit = size
    monkeypatch.setattr(search, "_STEP", step)
    monkeypatch.setattr(search, "_MOST", 4 * step)
    every = [
        (decision, filled.query.outcome(decision))
        for task in ("route", "other")
        for decision in filled.query.decisions(task)
    ]
    for wanted in WANTED:
        expected = sorted((row[0].seq for row in every if matches(wanted, *row)), reverse=True)
        got, before = [], None
        for _ in count():
            page = find_decisions(filled.database, wanted, before=before, limit=limit)
            assert len(page.decisions) <= limit
            for decision, outcome in page.decisions:
                assert outcome == filled.query.outcome(decision)
                got.append(decision.seq)
            before = page.next
            if before is None:
                break
        assert got == expected, wanted

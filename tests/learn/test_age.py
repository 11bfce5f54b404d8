"""Rows count by age where that predicts the next outcomes better, and not at all before a change."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from headway.learn.age import Ages, ChangedAction, best_half_life, has_changed
from headway.learn.bandit import BanditLearner
from headway.nouns.records import Settled, Situation
from tests.learn.logs import MemoryLog, identity, row


def rows(chances: list[float], seed: int) -> list[Settled]:
    """One row of the same action per chance of a reward of 1."""
    rng = np.random.default_rng(seed)
    made = [row(place + 1, Situation(task="t"), "blue", float(rng.random() < p)) for place, p in enumerate(chances)]
    return [replace(settled, decision=replace(settled.decision, seq=settled.seq)) for settled in made]


def chosen(chances: list[float], seed: int) -> float:
    reward = np.array([one.reward for one in rows(chances, seed)])
    return best_half_life(reward, np.zeros(len(reward), dtype=np.int64), np.arange(len(reward), 0, -1.0))


def test_all_rows_count_alike_in_a_steady_world() -> None:
    assert all(chosen([0.6] * 1500, seed) == inf for seed in range(5))


def test_a_world_that_has_changed_is_learned_with_a_half_life() -> None:
    assert all(chosen([0.8] * 1500 + [0.2] * 400, seed) == 250.0 for seed in range(5))


def test_few_rows_choose_no_half_life() -> None:
    assert chosen([0.9] * 80 + [0.1] * 80, 1) == inf


def test_a_row_of_one_half_life_counts_half_and_a_very_old_one_not_at_all() -> None:
    log = rows([0.5] * 3000, 1)
    ages = Ages(half_life=1000.0, upto=3000)
    assert ages.weight(log[-1]) == 1.0
    assert ages.weight(log[1999]) == 0.5
    assert Ages(half_life=250.0, upto=3000).weight(log[0]) == 0.0
    assert ages.weight(replace(log[1999], weight=0.5)) == 0.25
    spread = Ages(half_life=1000.0, upto=6000, per_row=2.0)  # every other row of the log is of another task
    assert spread.weight(replace(log[0], seq=4000)) == 0.5


def test_rows_before_a_change_do_not_count() -> None:
    log = rows([0.5] * 100, 1)
    name = log[0].decision.action
    ages = Ages(upto=100, changes=(ChangedAction(name, "", 61),))
    assert [ages.weight(settled) for settled in log] == [0.0] * 60 + [1.0] * 40
    elsewhere = Ages(upto=100, changes=(ChangedAction(name, "planner", 61),))
    assert {elsewhere.weight(settled) for settled in log} == {1.0}


def test_the_header_gives_the_same_weights() -> None:
    ages = Ages(half_life=250.0, upto=900, per_row=1.5, changes=(ChangedAction("large", "", 61),))
    assert Ages.read(ages.document()) == ages
    assert Ages.read(None).alike


def test_a_mean_has_changed_only_beyond_chance() -> None:
    rng = np.random.default_rng(2)
    before, same, other = (list((rng.random(n) < p).astype(float)) for n, p in ((500, 0.75), (60, 0.75), (60, 0.3)))
    assert not has_changed(before, same)
    assert has_changed(before, other)
    assert not has_changed(before, [])


def test_a_learner_counts_rows_by_weight() -> None:
    log = list(identity("category", 400, seed=3))
    light = [replace(settled, weight=0.25, reward=0.0) for settled in log]
    learner = BanditLearner(None)
    both = learner.learn(MemoryLog([*log, *light]), {}, seed=1)
    assert both.tensors["totals"][..., 0].sum() == pytest.approx(400 * 1.25)

"""Cloning copies the logged policy, with calibrated confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.offline.clone import Clone
from headway.kits.offline.clone_learner import CloneLearner
from headway.nouns.errors import Damaged, InvalidInput, InvalidSettings
from headway.nouns.protocols import Learned
from headway.nouns.records import Candidate, Settled, Situation
from tests.families import build
from tests.learn.logs import MemoryLog, row
from tests.opinions import opinion_on

CANDIDATES = (Candidate("small"), Candidate("large"))


def policy_of(learned: Learned) -> Clone:
    policy = build(learned.family, learned.knobs, learned.tensors, learned.extra)
    assert isinstance(policy, Clone)
    return policy


def logged(count: int, seed: int, candidates: tuple[Candidate, ...] = CANDIDATES) -> list[Settled]:
    """The rule "large if hard > 0.5", followed in four cases of five; the reward is uninformative."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        hard = float(rng.random())
        kept = rng.random() < 0.8
        name = candidates[-1].name if (hard > 0.5) == kept else candidates[0].name
        rows.append(row(number + 1, Situation(task="t", state={"hard": hard}), name, 0.0, candidates=candidates))
    return rows


def test_cloning_copies_the_logged_policy_with_calibrated_confidence() -> None:
    learned = CloneLearner().learn(MemoryLog(logged(2500, 0)), {"steps": 600}, seed=1)
    policy = policy_of(learned)
    hard = np.linspace(0.0, 1.0, 200)
    opinions = policy.opinions(
        [Situation(task="t", state={"hard": float(value)}) for value in hard], CANDIDATES, range(200)
    )
    away = np.abs(hard - 0.5) > 0.05
    assert (opinions.probabilities.argmax(axis=1)[away] == (hard > 0.5)[away]).all()
    assert opinions.confidence is not None
    assert abs(float(opinions.confidence[away].mean()) - 0.8) < 0.05
    assert learned.metrics["tune_agreement"] > learned.baselines["majority_agreement"] + 0.15
    assert learned.metrics["tune_loss"] < learned.baselines["uniform_loss"]


def test_cloning_can_keep_the_randomness_of_the_logged_policy() -> None:
    learned = CloneLearner().learn(MemoryLog(logged(2500, 2)), {"steps": 400, "explore": "policy"}, seed=1)
    opinion = opinion_on(policy_of(learned), Situation(task="t", state={"hard": 0.9}), CANDIDATES)
    assert abs(float(opinion.probabilities[1]) - 0.8) < 0.07


def test_an_arm_can_be_added_on_resume() -> None:
    old = policy_of(CloneLearner().learn(MemoryLog(logged(1500, 3)), {"steps": 400}, seed=1))
    more = (*CANDIDATES, Candidate("huge"))
    policy = policy_of(CloneLearner().learn(MemoryLog(logged(800, 4, more)), {"steps": 300}, seed=1, resume=old))
    assert policy.arms.names == ("large", "small", "huge")
    assert policy.features == old.features
    opinion = opinion_on(policy, Situation(task="t", state={"hard": 0.9}), more)
    assert more[int(opinion.probabilities.argmax())].name == "huge"


def test_invalid_input_is_refused() -> None:
    log = MemoryLog(logged(60, 5))
    for knobs in ({"step": 5}, {"steps": 0}, {"hidden": [0]}, {"explore": "thompson"}):
        with pytest.raises(InvalidSettings):
            CloneLearner().learn(log, knobs, seed=0)
    learned = CloneLearner().learn(log, {"steps": 10}, seed=0)
    other: Any = object.__new__(type("Other", (), {"family": "bandit"}))
    with pytest.raises(InvalidInput) as error:
        CloneLearner().learn(log, {}, seed=0, resume=other)
    assert error.value.code == "not_resumable"
    for wrong in (np.array([0.0]), np.array([1.0, 1.0]), np.array([np.nan]), None):
        with pytest.raises(Damaged):
            build("clone", learned.knobs, {**learned.tensors, "temperature": wrong}, learned.extra)

"""The outcome family: the minimum of its loss, calibrated probabilities, and shared weights of arms."""

from __future__ import annotations

import numpy as np
import pytest

from headway.kits.offline.outcome import OutcomePolicy
from headway.kits.offline.outcome_learner import ArmRows, OutcomeLearner, fit, loss_of, minimise
from headway.nouns.errors import Damaged, InvalidInput, InvalidSettings
from headway.nouns.protocols import Floats, Learned
from headway.nouns.records import Candidate, Settled, Situation
from tests.families import build, encoder
from tests.learn.logs import MemoryLog, row

CANDIDATES = (Candidate("cheap"), Candidate("good"))


def policy_of(learned: Learned) -> OutcomePolicy:
    policy = build(learned.family, learned.knobs, learned.tensors, learned.extra)
    assert isinstance(policy, OutcomePolicy)
    return policy


def test_the_minimum_of_a_quadratic_is_found() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    curve, aim = root @ root.T + np.eye(12), rng.normal(size=12)

    def value(x: Floats) -> tuple[float, Floats]:
        return float(0.5 * x @ curve @ x - aim @ x), curve @ x - aim

    assert np.abs(minimise(value, np.zeros(12), close=1e-14) - np.linalg.solve(curve, aim)).max() < 1e-4


def arms(rows: int, seed: int) -> tuple[list[ArmRows], Floats]:
    rng = np.random.default_rng(seed)
    truth = np.array([[0.2, 1.0, -0.5], [-0.3, 0.9, 0.4]])
    collected = []
    for weights in truth:
        x = np.concatenate([np.ones((rows, 1)), rng.normal(size=(rows, 2))], axis=1).astype(np.float32)
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-x @ weights))).astype(np.float32)
        collected.append(ArmRows(x, y, np.ones(rows, np.float32)))
    return collected, truth


def test_weights_of_a_logistic_world_are_found_and_are_the_minimum() -> None:
    rows, truth = arms(4000, 1)
    weights = fit(rows, 3, ridge=0.1, share=1.0)
    assert np.abs(weights[:-1] - truth).max() < 0.15
    best = loss_of(rows, weights)
    for shift in np.eye(3) * 0.1:
        assert loss_of(rows, weights + shift) > best
        assert loss_of(rows, weights - shift) > best


def test_similar_arms_share_weights() -> None:
    rows, _ = arms(1000, 2)
    few = [rows[0], ArmRows(rows[1].x[:5], rows[1].y[:5], rows[1].weight[:5])]
    apart, alike = (fit(few, 3, ridge=3.0, share=share) for share in (0.05, 20.0))
    assert abs(alike[1, 1] - alike[0, 1]) < abs(apart[1, 1] - apart[0, 1])


def full(count: int, seed: int) -> list[Settled]:
    """Both arms of every situation are recorded: "good" solves nearly all, "cheap" the easy half."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        hard = float(rng.normal())
        for place, candidate in enumerate(CANDIDATES):
            solved = rng.random() < 1.0 / (1.0 + np.exp(3.0 * hard - 3.0 * place))
            situation = Situation(task="t", state={"hard": hard})
            rows.append(row(2 * number + place + 1, situation, candidate.name, float(solved), candidates=CANDIDATES))
    return rows


def test_predicted_shares_are_the_true_ones_and_prices_move_the_choice() -> None:
    learned = OutcomeLearner().learn(MemoryLog(full(2000, 3)), {}, seed=0)
    policy = policy_of(learned)
    hard = np.linspace(-2.0, 2.0, 41)
    situations = [Situation(task="t", state={"hard": float(number)}) for number in hard]
    opinions = policy.opinions(situations, CANDIDATES, range(len(hard)))
    exact = 1.0 / (1.0 + np.exp(3.0 * hard[:, None] - 3.0 * np.arange(2)))
    assert opinions.mean is not None
    assert np.abs(opinions.mean - exact).max() < 0.08
    assert learned.metrics["tune_value"] >= learned.baselines["constant_best"] - 0.05
    priced = OutcomeLearner().learn(
        MemoryLog(full(2000, 3)), {"costs": {"cheap": 0.0, "good": 1.0}, "cost_weight": 0.4}, seed=0
    )
    chosen = policy_of(priced).opinions(situations, CANDIDATES, range(len(hard))).probabilities.argmax(axis=1)
    assert chosen[0] == 0  # easy: "cheap" solves it too
    assert chosen[20 + 5] == 1  # "cheap" fails, "good" does not
    assert chosen[-1] == 0  # neither solves it


def test_invalid_input_is_refused() -> None:
    log = MemoryLog(full(60, 4))
    for knobs in ({"ridges": 1.0}, {"ridge": 0.0}, {"share": True}, {"costs": {"a": "x"}}, {"explore": "boldly"}):
        with pytest.raises(InvalidSettings):
            OutcomeLearner().learn(log, knobs, seed=0)
    wide = encoder({"name": "hashing", "width": 2048})
    words = [row(n, Situation(task="t", text=f"word {n}"), "cheap", 1.0, candidates=CANDIDATES) for n in range(1, 50)]
    with pytest.raises(InvalidInput) as error:
        OutcomeLearner(wide).learn(MemoryLog(words), {}, seed=0)
    assert error.value.code == "too_wide"
    learned = OutcomeLearner().learn(log, {}, seed=0)
    for name, wrong in (
        ("range", np.array([1.0, 0.0])),
        ("weights", np.full_like(learned.tensors["weights"], np.inf)),
        ("covariance", -learned.tensors["covariance"]),
        ("covariance", None),
    ):
        with pytest.raises(Damaged):
            build("outcome", learned.knobs, {**learned.tensors, name: wrong}, learned.extra)

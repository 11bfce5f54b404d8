"""The curve of quality against cost, compared with known true values."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.kits.offline.tradeoff import Tradeoff, traded, tradeoff
from headway.nouns.errors import InvalidInput, UnknownName

ARMS = ("small", "large")


def world(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Small solves 1 - x, large 0.95, at 1 and 10 cents with noise; x is in the state. And the true values [n, arm]."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    truth = np.stack([1.0 - x, np.full(n, 0.95)], axis=1)
    large = np.full(n, 0.5) * (0.5 + x)
    logged = np.stack([1.0 - large, large], axis=1)
    action = (rng.random(n) < large).astype(np.int64)
    rows = np.arange(n)
    quality = (rng.random(n) < truth[rows, action]).astype(float)
    cost = np.array([0.01, 0.10])[action] * rng.uniform(0.8, 1.2, n)
    return {"features": x[:, None], "action": action, "logged": logged, "quality": quality, "cost": cost}, truth


def found_in(n: int = 6000, seed: int = 0, **more: object) -> tuple[Tradeoff, np.ndarray]:
    rows, truth = world(n, seed)
    return tradeoff(**rows, arms=ARMS, **more), truth  # type: ignore[arg-type]


def test_the_ends_of_the_curve_are_best_quality_and_lowest_cost() -> None:
    curve, truth = found_in()
    first, last = curve.points[0], curve.points[-1]
    assert (first.weight, last.weight) == (0.0, inf)
    assert first.quality.value == pytest.approx(truth.max(axis=1).mean(), abs=0.03)
    assert last.shares == {"small": 1.0}
    assert last.cost.value == pytest.approx(0.01, rel=0.05)
    costs = [point.cost.value for point in curve.points]
    assert all(later <= earlier + 0.002 for earlier, later in pairwise(costs))


def test_the_intervals_of_constant_policies_contain_the_true_values() -> None:
    for seed in range(5):
        curve, truth = found_in(seed=seed)
        for column, name in enumerate(ARMS):
            quality = curve.constants[name].quality
            assert quality.low - 0.02 < truth[:, column].mean() < quality.high + 0.02


def test_a_constraint_is_met_by_the_true_values_and_saves_money() -> None:
    for seed in range(5):
        curve, _ = found_in(12_000, seed, at_least=0.95, of="large")
        assert curve.chosen is not None
        assert curve.chosen.weight > 0.0
        large = curve.constants["large"]
        assert curve.chosen.cost.value < 0.9 * large.cost.value
        assert curve.chosen.quality.value >= 0.95 * large.quality.value
        # The true value of the threshold policy of the chosen weight: large where 0.95 - (1 - x) > w * 0.09.
        x = np.linspace(0.0, 1.0, 10_001)
        true = np.where(0.95 - (1.0 - x) > curve.chosen.weight * 0.09, 0.95, 1.0 - x).mean()
        assert true >= 0.95 * 0.95 - 0.01


def test_a_constraint_that_no_policy_meets_gives_no_choice() -> None:
    rows, _ = world(400, 1)
    rows["quality"] = (rows["action"] == 1).astype(float)  # only large solves any prompt
    curve = tradeoff(**rows, arms=ARMS, at_least=1.0, of="large")  # type: ignore[arg-type]
    assert curve.chosen is None or curve.chosen.shares == {"large": 1.0}
    with pytest.raises(UnknownName):
        tradeoff(**rows, arms=ARMS, at_least=0.9, of="medium")  # type: ignore[arg-type]


def test_too_few_rows_are_an_error() -> None:
    with pytest.raises(InvalidInput) as error:
        found_in(50)
    assert error.value.code == "too_few_rows"


@pytest.mark.slow
def test_a_project_traces_its_own_curve(tmp_path: object) -> None:
    with headway.open(str(tmp_path), environ={}, seed=3) as project:
        for ask in headway.sample("route", n=1500, seed=4):
            pick = project.decide("route", ask.text, list(ARMS))
            cost = {"small": 0.02, "large": 0.25}[pick.action]
            project.signal(
                pick.id, reward=ask.outcome(pick.action), solved=ask.outcome(pick.action) + cost, cost_usd=cost
            )
        curve = traded(project, "route", quality="solved", cost="cost_usd", at_least=0.9)
        assert curve.n == 1500
        assert curve.of == "large"
        assert curve.constants["small"].cost.value == pytest.approx(0.02, rel=1e-4)
        assert curve.points[0].quality.value > curve.points[-1].quality.value
        with pytest.raises(InvalidInput):
            traded(project, "route", quality="nothing", cost="cost_usd")


def test_the_reward_without_its_cost_is_traded_against_money_unless_signals_are_named(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(
        '[tasks.route]\nactions = ["small", "large"]\nreward = { solved = 1.0, cost_usd = -20.0 }\n'
        '[tasks.cheap]\nactions = ["small", "large"]\nreward = { cost_usd = -20.0 }\n'
        '[tasks.free]\nactions = ["small", "large"]\nreward = { solved = 1.0 }\n'
        '[store]\ndurability = "process"\n',
        "utf-8",
    )
    with headway.open(tmp_path, environ={}, seed=3) as project:
        for number in range(120):
            pick = project.decide("route", f"question {number}")
            project.signal(pick.id, solved=float(pick.action == "large"), cost_usd=0.01)
        by_default, named = (
            traded(project, "route"),
            traded(project, "route", quality="solved", cost="cost_usd"),
        )
        assert by_default == named
        for task, code in (("cheap", "quality_missing"), ("free", "cost_missing")):
            with pytest.raises(InvalidInput) as error:
                traded(project, task)
            assert error.value.code == code

"""Predictions are stored before a round is played, and compared with what came."""

from __future__ import annotations

import json

import pytest

from headway.kits.next_action.improve.forecasts import RoundForecast, forecast_report
from headway.kits.next_action.improve.rounds import DETAILS, PREDICTION
from headway.kits.next_action.measures import window
from headway.observe.erase import DeletionFilter
from headway.project import Project
from tests.kits.next_action.improve.conftest import Ground, scored


def forecast(predicted: float | None, reward: float | None, half: float | None = 0.1) -> RoundForecast:
    low, high = (None, None) if predicted is None or half is None else (predicted - half, predicted + half)
    return RoundForecast(verdict="kept", predicted=predicted, low=low, high=high, reward=reward)


def test_accuracy_stands_beside_the_more_frequent_sign() -> None:
    seen = window([forecast(0.2, 0.1), forecast(0.3, -0.2), forecast(0.1, 0.5), forecast(0.4, 0.3), forecast(0.1, 0.0)])
    assert (seen.predicted, seen.sign_accuracy, seen.majority) == (5, 0.75, 0.75)
    assert seen.error == pytest.approx((0.1 + 0.5 + 0.4 + 0.1 + 0.1) / 5)


def test_coverage_is_that_of_the_interval_of_80_percent() -> None:
    inside, outside = forecast(0.0, 0.099), forecast(0.0, 0.101)
    assert window([inside, outside, outside, forecast(0.0, 5.0, None)]).coverage == pytest.approx(1 / 3)


def test_rounds_without_a_prediction_or_a_reward_are_not_compared() -> None:
    seen = window([forecast(None, 0.5), forecast(0.5, None)])
    assert (seen.predicted, seen.sign_accuracy, seen.coverage, seen.error) == (0, None, None, None)


@pytest.mark.slow
def test_a_policy_that_predicts_is_held_to_its_predictions(ground: Ground) -> None:
    ground.tasks = '[tasks.next-action]\nkind = "ranking"\nfamily = "bandit"\ngate = "off"\n'
    ground.offer(scored(2))
    ground.commit()
    with Project(ground.folder, seed=3) as project:
        for number in range(60):
            pick = project.decide("next-action", f"try {number}", ["fix", "test"])
            project.signal(pick.id, reward=0.5 if pick.action == "fix" else -0.5)
        project.promote(project.learn("next-action"))
    (result,) = ground.play()
    assert result.predicted is not None
    with Project(ground.folder) as project:
        stored = json.loads(project.query.details(result.decision, DETAILS)[PREDICTION])
        assert (stored["predicted"], stored["low"], stored["high"]) == (result.predicted, result.low, result.high)
        assert stored["policy"].startswith("bandit@")
        report = forecast_report(project, "up")
        project.erase(DeletionFilter(decision=result.decision))
        erased = forecast_report(project, "up")
    assert (erased.rounds, erased.rewards_erased, erased.overall) == (0, 1, None)
    assert report.overall is not None
    assert report.overall.predicted == 1
    assert report.overall.error == pytest.approx(abs(1.0 - result.predicted))

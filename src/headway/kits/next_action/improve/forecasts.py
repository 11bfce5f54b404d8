"""Predictions of an improver's rounds against their outcomes: were the rewards that the policy predicted the ones that
came?

    forecast_report(project, "speed")

Each prediction and its interval were stored with the decision before the round was played; the outcome was stored
after it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from headway.kits.next_action.improve.journal import Journal
from headway.kits.next_action.improve.rounds import DETAILS, PREDICTION
from headway.kits.next_action.improve.run_state import RoundResult, RunState
from headway.kits.next_action.measures import CalibrationWindow, window, windows
from headway.nouns import errors
from headway.project import Project

_WINDOW = 20  # rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundForecast:
    """One round: what was predicted, and what came."""

    verdict: str
    predicted: float | None
    low: float | None  # of the 80% interval that the policy gave
    high: float | None
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastReport:
    """All rounds of an improver."""

    improver: str
    rounds: int
    verdicts: dict[str, int]
    windows: tuple[CalibrationWindow, ...]
    overall: CalibrationWindow | None
    rewards_erased: int  # rounds whose decision was deleted from the store


def runs_of(project: Project, name: str) -> dict[str, RunState]:
    """Every run of an improver by its number, read without changing it: one may be running now."""
    home = project.home / "improve" / name
    paths = sorted(home.glob("[0-9]*/journal.jsonl")) if home.is_dir() else []
    return {path.parent.name: RunState(Journal(path, repair=False)) for path in paths}


def forecast_report(project: Project, name: str) -> ForecastReport:
    """Compare prediction and outcome of every round."""
    runs = runs_of(project, name)
    if not runs:
        raise errors.UnknownName(
            f"The improver {name!r} has not run yet.", code="no_runs", hint=f"Run it first: headway improve {name}"
        )
    forecasts: list[RoundForecast] = []
    erased = 0
    for result in (result for state in runs.values() for result in state.results):
        try:
            forecasts.append(_forecast(project, result))
        except errors.UnknownName:
            erased += 1
    return ForecastReport(
        improver=name,
        rounds=len(forecasts),
        verdicts=dict(Counter(forecast.verdict for forecast in forecasts)),
        windows=windows(forecasts, _WINDOW),
        overall=window(forecasts) if forecasts else None,
        rewards_erased=erased,
    )


def _forecast(project: Project, result: RoundResult) -> RoundForecast:
    outcome = project.outcome(result.decision)
    stored = project.query.details(result.decision, DETAILS).get(PREDICTION, b"{}")
    prediction: dict[str, Any] = json.loads(stored)
    return RoundForecast(
        verdict=result.verdict,
        predicted=prediction.get("predicted"),
        low=prediction.get("low"),
        high=prediction.get("high"),
        reward=outcome.reward if outcome.status == "rewarded" else None,
    )

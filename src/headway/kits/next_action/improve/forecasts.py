"""Predictions against outcomes: were the rewards that the policy predicted the ones that came?

    forecast_report(project, "speed")

Each prediction was stored with its decision before the round was played; the outcome was stored after it. Accuracy is
that of the sign, and stands beside what "always the more frequent sign" would have reached. Coverage is the share of
outcomes inside the 80% interval.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.kits.next_action.improve.journal import Journal
from headway.kits.next_action.improve.rounds import DETAILS, PREDICTION
from headway.kits.next_action.improve.run_state import RunState
from headway.nouns.errors import UnknownName

if TYPE_CHECKING:
    from headway.project import Project

__all__ = ["Forecast", "ForecastReport", "ForecastWindow", "forecast_report"]

_WINDOW = 20  # rounds
_INTERVAL = 1.2815515655446004  # standard deviations of a central 80% interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One round: what was predicted, and what came."""

    round: int  # over all runs
    verdict: str
    predicted: float | None
    std: float | None
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastWindow:
    """The quality of the predictions in some rounds, in order of time; None: nothing to compare."""

    first: int
    last: int
    predicted: int  # rounds with a prediction and a reward
    sign_accuracy: float | None  # where both are not 0
    majority: float | None  # the share of the more frequent sign: the baseline of sign_accuracy
    coverage: float | None  # of the 80% interval
    error: float | None  # mean absolute difference


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastReport:
    """All rounds of an improver."""

    improver: str
    rounds: int
    verdicts: dict[str, int]
    windows: tuple[ForecastWindow, ...]
    overall: ForecastWindow | None
    rewards_erased: int  # rounds whose decision was deleted from the store


def forecast_report(project: Project, name: str) -> ForecastReport:
    """Read the runs of an improver, and for each round prediction and outcome from the store."""
    home = project.home / "improve" / name
    runs = sorted(home.glob("[0-9]*/journal.jsonl")) if home.is_dir() else []
    if not runs:
        raise UnknownName(
            f"The improver {name!r} has not run yet.", code="no_runs", hint=f"Run it first: headway improve {name}"
        )
    forecasts: list[Forecast] = []
    erased = 0
    for path in runs:
        for result in RunState(Journal(path)).results:
            try:
                forecasts.append(_forecast(project, len(forecasts) + 1, result.verdict, result.decision))
            except UnknownName:
                erased += 1
    chunks = [forecasts[at : at + _WINDOW] for at in range(0, len(forecasts), _WINDOW)]
    return ForecastReport(
        improver=name,
        rounds=len(forecasts),
        verdicts=dict(Counter(forecast.verdict for forecast in forecasts)),
        windows=tuple(map(window, chunks)),
        overall=window(forecasts) if forecasts else None,
        rewards_erased=erased,
    )


def _forecast(project: Project, number: int, verdict: str, decision: str) -> Forecast:
    outcome = project.outcome(decision)
    stored = project.query.details(decision, DETAILS).get(PREDICTION, b"{}")
    prediction: dict[str, Any] = json.loads(stored)
    return Forecast(
        round=number,
        verdict=verdict,
        predicted=prediction.get("predicted"),
        std=prediction.get("std"),
        reward=outcome.reward if outcome.status == "rewarded" else None,
    )


def window(forecasts: Sequence[Forecast]) -> ForecastWindow:
    """The quality of these predictions."""
    pairs = [
        (forecast.predicted, forecast.reward, forecast.std)
        for forecast in forecasts
        if forecast.predicted is not None and forecast.reward is not None
    ]
    signed = [(predicted > 0.0, reward > 0.0) for predicted, reward, _ in pairs if predicted != 0.0 and reward != 0.0]
    inside = [abs(reward - predicted) <= _INTERVAL * std for predicted, reward, std in pairs if std is not None]
    positive = sum(reward for _, reward in signed)
    return ForecastWindow(
        first=forecasts[0].round,
        last=forecasts[-1].round,
        predicted=len(pairs),
        sign_accuracy=_share([predicted == reward for predicted, reward in signed]),
        majority=max(positive, len(signed) - positive) / len(signed) if signed else None,
        coverage=_share(inside),
        error=sum(abs(reward - predicted) for predicted, reward, _ in pairs) / len(pairs) if pairs else None,
    )


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None

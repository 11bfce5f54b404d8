"""/v1/runs: training runs and their curves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.kits.runs.training_runs import TrainingRun, ask_to_stop, list_runs, read_curves
from headway.nouns import rfc3339
from headway.serve import Call, endpoint, strict


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One training run: running, stopped, done or interrupted."""

    run: str
    state: str
    task: str
    family: str
    world: str
    seed: int | None
    policy: str  # what it published
    command: str  # that continues it; empty if nothing does
    started: str
    updated: str  # when its last metrics were written


class RunsAnswer(msgspec.Struct, frozen=True):
    runs: list[RunAnswer]


class CurvesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a run over `x`; nested names are joined by dots, and null means that no line had the number."""

    run: RunAnswer
    x_name: str
    x: list[float]
    series: dict[str, list[float | None]]
    lines: int
    lines_per_point: int  # that a point is the mean of


class CurvesQuery(strict):
    points: Annotated[int, Meta(ge=2, le=10_000)] = 500


@endpoint("GET", "/v1/runs", gives=RunsAnswer, scope="train")
def runs(call: Call) -> RunsAnswer:
    """Training runs of this project, newest first."""
    return RunsAnswer([_answer(run) for run in list_runs(call.server.project.home)])


@endpoint("GET", "/v1/runs/{run}/metrics", query=CurvesQuery, gives=CurvesAnswer, errors=(404,), scope="train")
def run_metrics(call: Call) -> CurvesAnswer:
    """The curves of a run: every number that it wrote, averaged into at most `points` points."""
    query: CurvesQuery = call.query
    curves = read_curves(call.server.project.home, call.params["run"], points=query.points)
    return CurvesAnswer(
        run=_answer(curves.run),
        x_name=curves.x_name,
        x=curves.x,
        series=curves.series,
        lines=curves.lines,
        lines_per_point=curves.lines_per_point,
    )


@endpoint(
    "POST",
    "/v1/runs/{run}/stop",
    takes=dict[str, None],
    gives=RunAnswer,
    status=202,
    errors=(404, 409),
    scope="admin",
    optional=True,
)
def stop_run(call: Call, body: dict[str, None]) -> RunAnswer:
    """Ask a running run to stop after its next update; it writes a snapshot, and `command` continues it."""
    return _answer(ask_to_stop(call.server.project.home, call.params["run"]))


def _answer(run: TrainingRun) -> RunAnswer:
    told: dict[str, Any] = asdict(run) | {"started": rfc3339(run.started), "updated": rfc3339(run.updated)}
    return RunAnswer(**told)

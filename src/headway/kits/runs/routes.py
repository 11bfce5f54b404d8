"""/v1/runs: training runs and their curves."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headway.kits.runs.training_runs import MetricCurves, RunList, TrainingRun, ask_to_stop, list_runs, read_curves
from headway.serve import Call, endpoint, strict


class CurvesQuery(strict):
    points: Annotated[int, Meta(ge=2, le=10_000)] = 500


@endpoint("GET", "/v1/runs", gives=RunList, scope="train")
def runs(call: Call) -> RunList:
    """Training runs of this project, newest first."""
    return RunList(runs=list_runs(call.server.project.home))


@endpoint("GET", "/v1/runs/{run}/metrics", query=CurvesQuery, gives=MetricCurves, errors=(404,), scope="train")
def run_metrics(call: Call) -> MetricCurves:
    """The curves of a run: every number that it wrote, averaged into at most `points` points."""
    query: CurvesQuery = call.query
    return read_curves(call.server.project.home, call.params["run"], points=query.points)


@endpoint(
    "POST",
    "/v1/runs/{run}/stop",
    takes=dict[str, None],
    gives=TrainingRun,
    status=202,
    errors=(404, 409),
    scope="admin",
    optional=True,
)
def stop_run(call: Call, body: dict[str, None]) -> TrainingRun:
    """Ask a running run to stop after its next update; it writes a snapshot, and `command` continues it."""
    return ask_to_stop(call.server.project.home, call.params["run"])

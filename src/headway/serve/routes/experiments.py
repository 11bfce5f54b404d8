"""/v1/experiments: a candidate that gets a share of the traffic until its test ends."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headway.nouns import ExperimentState
from headway.promote import Entry
from headway.serve.endpoints import Call, endpoint, strict
from headway.serve.routes.policies import TaskQuery, Why, tasks_of


class ExperimentsAnswer(msgspec.Struct, frozen=True):
    experiments: list[ExperimentState]


@endpoint("GET", "/v1/experiments", query=TaskQuery, gives=ExperimentsAnswer, errors=(404,), scope="open")
def experiments(call: Call) -> ExperimentsAnswer:
    """The running experiment of each task, or else its last one: progress, expected end and verdict so far."""
    states = [call.server.project.experiment(name) for name in tasks_of(call)]
    return ExperimentsAnswer([state for state in states if state is not None])


class ExperimentRequest(strict):
    policy: Annotated[str, Meta(max_length=100)] | None = None  # the newest candidate by default
    share: Annotated[float, Meta(gt=0.0, le=0.5)] | None = None  # the cheapest one by default


@endpoint(
    "POST",
    "/v1/tasks/{task}/experiment",
    takes=ExperimentRequest,
    gives=Entry,
    errors=(404, 409),
    scope="admin",
    optional=True,
)
def start_experiment(call: Call, body: ExperimentRequest) -> Entry:
    """Let a candidate decide on a share of the traffic until its test ends; a running experiment stays as it is."""
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    return project.start_experiment(task, policy=body.policy, share=body.share, who=call.key)


class StopRequest(strict):
    why: Why = "stopped"


@endpoint(
    "POST",
    "/v1/tasks/{task}/experiment/stop",
    takes=StopRequest,
    gives=Entry,
    errors=(404, 409),
    scope="admin",
    optional=True,
)
def stop_experiment(call: Call, body: StopRequest) -> Entry:
    """End the running experiment; the current policy decides alone again."""
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    return project.stop_experiment(task, why=body.why, who=call.key)

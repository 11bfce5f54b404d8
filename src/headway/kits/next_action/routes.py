"""Ranking over HTTP: candidates in order of predicted reward, predictions against outcomes, and improvers' rounds."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headway.kits.next_action.predictions import PredictionReport
from headway.kits.next_action.ranking import Ranked, asked_about, rank as ranked
from headway.serve import Call, Candidates, State, Text, described, endpoint, strict


class RankRequest(strict):
    """What to rank. Without a state, a ranking task takes that of its latest decision."""

    candidates: Candidates | None = None
    text: Text = ""
    state: State | None = None
    role: Annotated[str, Meta(max_length=200)] = ""
    policy: Annotated[str, Meta(max_length=200)] | None = None


class RankAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, the best first. `state_of`: the decision whose state was assumed."""

    task: str
    policy: str
    ranking: list[Ranked]
    state_of: str | None


@endpoint("POST", "/v1/tasks/{task}/rank", takes=RankRequest, gives=RankAnswer, errors=(404,), scope="decide")
def rank(call: Call, body: RankRequest) -> RankAnswer:
    """Candidates in order of predicted reward, with 80% intervals; nothing is logged."""
    project, task = call.server.project, call.params["task"]
    call.server.admit(task)
    asked = asked_about(project, task, body.text, body.state, body.role, reader=call.reader)
    ref, _ = project.servings.resolve(project.settings.task(task), body.policy or "current")
    ranking = ranked(
        project, task, described(body.candidates), asked.text, state=asked.state, role=asked.role, policy=ref
    )
    return RankAnswer(task=task, policy=ref, ranking=ranking, state_of=asked.state_of)


# -- predictions against outcomes


class PredictionsQuery(strict):
    policy: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=5000)] = 500


@endpoint(
    "GET",
    "/v1/tasks/{task}/predictions",
    query=PredictionsQuery,
    gives=PredictionReport,
    errors=(404,),
    scope="train",
)
def predictions(call: Call) -> PredictionReport:
    """Predicted rewards of a task's latest decisions beside their outcomes, and the calibration over time."""
    from headway.kits.next_action.predictions import predictions as compare

    query: PredictionsQuery = call.query
    return compare(call.server.project, call.params["task"], policy=query.policy, limit=query.limit)

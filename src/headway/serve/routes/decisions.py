"""/v1/decisions: decide, and look at what was decided."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.nouns.errors import Conflict, UnknownName
from headway.nouns.ids import parse_decision_id
from headway.nouns.records import Decision
from headway.serve.endpoint import Call, Reply, endpoint, strict
from headway.serve.times import moment
from headway.serve.wire import DecisionAnswer, DecisionBatch, DecisionRequest, DecisionsAnswer, Task, described

_YIELD_EVERY = 20  # decisions of a batch between which others get their turn


@endpoint(
    "POST",
    "/v1/decisions",
    takes=DecisionRequest,
    gives=DecisionAnswer,
    status=201,
    errors=(200, 404, 409),
    scope="decide",
    hot=True,
)
async def decide(call: Call, body: DecisionRequest) -> DecisionAnswer | Reply:
    """Choose one of the candidates; 201: decided and durably logged; 200: this id was decided before."""
    made, stored = await _decided(call, body)
    call.server.metrics.count("decisions", body.task)
    answer = _answer(stored)
    return answer if stored is made or _same(stored, made) else Reply(body=answer, status=200)


@endpoint(
    "POST",
    "/v1/decisions/batch",
    takes=DecisionBatch,
    gives=DecisionsAnswer,
    status=201,
    errors=(404, 409),
    scope="decide",
    batch=True,
    hot=True,
)
async def decide_many(call: Call, body: DecisionBatch) -> DecisionsAnswer:
    """Decide up to 1,000 at once: all of them are stored, or none."""
    project = call.server.project
    considered = []
    for place, each in enumerate(body.decisions, 1):
        considered.append(_consider(call, each))
        if place % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
    stored = await asyncio.wrap_future(project.submit(considered))
    for one in stored:
        call.server.metrics.count("decisions", one.task)
    return DecisionsAnswer([_answer(each) for each in stored])


def _consider(call: Call, body: DecisionRequest) -> Any:
    return call.server.project.consider(
        body.task,
        body.text,
        described(body.candidates),
        state=body.state,
        episode=body.episode,
        step=body.step,
        role=body.role,
        id=body.id,
        key=call.key,
    )


async def _decided(call: Call, body: DecisionRequest) -> tuple[Decision, Decision]:
    considered = _consider(call, body)
    try:
        (stored,) = await asyncio.wrap_future(call.server.project.submit([considered]))
    except Conflict as error:
        if error.code != "draw_exists":
            raise
        considered = _consider(call, body)  # another request opened the sticky episode first: repeat its draw
        (stored,) = await asyncio.wrap_future(call.server.project.submit([considered]))
    return considered[0], stored


def _same(stored: Decision, made: Decision) -> bool:
    """Whether the stored decision is the one just made; an earlier one under the same id has another time."""
    return round(stored.at * 1e6) == round(made.at * 1e6)


def _answer(decision: Decision) -> DecisionAnswer:
    return DecisionAnswer(
        id=decision.id, action=decision.action, propensity=decision.propensity, policy=decision.policy
    )


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    task: str
    at: str
    text: str
    action: str
    propensity: float
    policy: str
    episode: str | None
    step: int | None
    source: str


class DecisionRows(msgspec.Struct, frozen=True):
    decisions: list[DecisionRow]


class LatestQuery(strict):
    task: Task | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


@endpoint("GET", "/v1/decisions", query=LatestQuery, gives=DecisionRows, errors=(404,), scope="train")
def latest_decisions(call: Call) -> DecisionRows:
    """The latest decisions, newest first."""
    query: LatestQuery = call.query
    if query.task is not None:
        call.server.project.settings.task(query.task)
    return DecisionRows([_row(each) for each in call.server.project.query.latest(query.task, query.limit)])


def _row(each: Decision) -> DecisionRow:
    return DecisionRow(
        id=each.id,
        task=each.task,
        at=moment(each.at),
        text=each.situation.text,
        action=each.action,
        propensity=each.propensity,
        policy=each.policy,
        episode=each.situation.episode,
        step=each.situation.step,
        source=each.source,
    )


@endpoint("GET", "/v1/decisions/{decision}", gives=dict[str, Any], errors=(404,), scope="decide")
def explain(call: Call) -> dict[str, Any]:
    """Who decided, why, with which probabilities, and how it went."""
    project = call.server.project
    found = project.query.decision(parse_decision_id(call.params["decision"]))
    if found.key != call.key and "train" not in call.scopes:
        raise UnknownName(f"There is no decision {found.id!r}.", code="unknown_decision")
    return project.explain(found.id)

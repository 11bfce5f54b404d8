"""/v1/decisions: decide, list and explain decisions."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headway.nouns import Decision, Explanation, Outcome, errors, is_own, parse_rfc3339, rfc3339
from headway.observe import DecisionFilter, find_decisions
from headway.project import Ask, Considered, Details, Project
from headway.serve.endpoints import SENT, Call, Sent, endpoint, strict
from headway.serve.wire import DecisionAnswer, DecisionBatch, DecisionRequest, DecisionsAnswer, Task, described

_TOGETHER = 50  # decisions of a batch that are considered together


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
async def decide(call: Call, body: DecisionRequest) -> Sent:
    """Choose one of the candidates; 201: decided and durably logged; 200: this id was decided before."""
    ask, project = _ask(call, body), call.server.project
    if body.task in project.servings.slow:  # the vectors are cached before the event loop needs them
        await call.in_thread(project.servings.prepare, project.settings.task(body.task), [body.text])

    def answer(decision: Decision, new: bool) -> None:
        call.answer(201 if new else 200, _answer(decision))

    if body.task in project.servings.blocking:
        decision, new = await call.in_thread(lambda: project.submit_ask(ask).result())
        call.answer(201 if new else 200, await call.in_thread(_whole_answer, project, decision))
    elif body.episode is None:
        await call.server.grouping.add(ask, answer)
    else:
        answer(*await asyncio.wrap_future(project.submit_ask(ask)))
    call.server.metrics.count("decisions", body.task)
    return SENT


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
    asks = [_ask(call, decision) for decision in body.decisions]
    considered: list[Considered] = []
    for task in {decision.task for decision in body.decisions} & project.servings.slow:
        texts = [decision.text for decision in body.decisions if decision.task == task]
        await call.in_thread(project.servings.prepare, project.settings.task(task), texts)
    for place in range(0, len(asks), _TOGETHER):
        for result in project.consider_many(asks[place : place + _TOGETHER]):
            if isinstance(result, errors.HeadwayError):
                raise result
            considered.append(result)
        await asyncio.sleep(0)  # let other requests run
    stored = await asyncio.wrap_future(project.submit(considered))
    counts = Counter(one.task for one in stored)
    for task, count in counts.items():
        call.server.metrics.count("decisions", task, count)
    if not any(project.settings.task(task).traits.answer for task in counts):
        return DecisionsAnswer([_answer(decision) for decision in stored])
    return DecisionsAnswer(await call.in_thread(lambda: [_whole_answer(project, one) for one in stored]))


def _ask(call: Call, body: DecisionRequest) -> Ask:
    call.server.admit(body.task)
    details: Details = {"key": call.key}
    if body.state:
        details["state"] = body.state
    if body.role:
        details["role"] = body.role
    if body.id is not None:
        details["id"] = body.id
    if body.idempotency_key is not None:
        details["idempotency_key"] = body.idempotency_key
    if body.unit is not None:
        details["unit"], details["position"] = body.unit, body.position
    if body.episode is not None:
        details["episode"] = body.episode
    if body.step is not None:
        details["step"] = body.step
    if body.masks is not None:
        details["masks"] = body.masks
    offers = described(body.candidates) if body.candidates else None
    return Ask(body.task, body.text, offers, details)


def _answer(decision: Decision) -> DecisionAnswer:
    return DecisionAnswer(
        id=decision.id, action=decision.action, propensity=decision.propensity, policy=decision.policy
    )


def _whole_answer(project: Project, decision: Decision) -> DecisionAnswer:
    """The answer with what the kind of its task adds. It may read the store, so it runs in a thread."""
    answer = {
        "id": decision.id, "action": decision.action, "propensity": decision.propensity, "policy": decision.policy,
        **project.beside(decision),
    }  # fmt: skip
    return msgspec.convert(answer, DecisionAnswer, from_attributes=True)


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
    status: str  # pending, rewarded, failed or censored
    reward: float | None


class DecisionRows(msgspec.Struct, frozen=True):
    decisions: list[DecisionRow]
    next: int | None  # `before` of the next page; null: there are no more
    looked: int  # rows of the log that were looked at


class LatestQuery(strict):
    task: Task | None = None
    text: Annotated[str, Meta(min_length=1, max_length=200, description="A part of the text, in any case.")] | None = (
        None
    )
    action: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    policy: Annotated[str, Meta(min_length=1, max_length=100, description="Such as bandit@4f2a.")] | None = None
    status: Literal["pending", "rewarded", "failed", "censored"] | None = None
    reward_from: float | None = None
    reward_to: float | None = None
    since: Annotated[str, Meta(max_length=40, description="RFC 3339: made then or later.")] | None = None
    until: Annotated[str, Meta(max_length=40, description="RFC 3339: made before then.")] | None = None
    before: Annotated[int, Meta(ge=1, lt=2**53, description="`next` of the previous page.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


@endpoint("GET", "/v1/decisions", query=LatestQuery, gives=DecisionRows, errors=(404,), scope="train")
def latest_decisions(call: Call) -> DecisionRows:
    """Decisions that match, newest first, in pages.

    One answer looks at 200,000 rows at most: it may be short and have a next page.
    """
    query: LatestQuery = call.query
    project = call.server.project
    if query.task is not None:
        project.settings.task(query.task)
    wanted = DecisionFilter(
        task=query.task,
        text=query.text,
        action=query.action,
        policy=query.policy,
        status=query.status,
        reward_from=query.reward_from,
        reward_to=query.reward_to,
        since=_time("since", query.since),
        until=_time("until", query.until),
    )
    page = find_decisions(project.database, wanted, before=query.before, limit=query.limit, attempts=False)
    return DecisionRows([_row(*found) for found in page.decisions], page.next, page.looked)


def _time(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise errors.InvalidInput(
            f"{name} is {text!r}, expected a time.", code="bad_query", hint="Write it as 2026-01-31T12:00:00Z."
        ) from None


def _row(decision: Decision, outcome: Outcome) -> DecisionRow:
    return DecisionRow(
        id=decision.id,
        task=decision.task,
        at=rfc3339(decision.at),
        text=decision.situation.text,
        action=decision.action,
        propensity=decision.propensity,
        policy=decision.policy,
        episode=decision.situation.episode,
        step=decision.situation.step,
        source=decision.source,
        status=outcome.status,
        reward=outcome.reward,
    )


@endpoint("GET", "/v1/decisions/{decision}", gives=Explanation, errors=(404,), scope="decide", hot=True)
def explain(call: Call) -> Explanation:
    """How a decision was made: policy, reason, probabilities and outcome.

    Signals are those of the caller and of the project; with the scope `train`, of every rater.
    """
    told = call.server.project.explain(call.decision(call.params["decision"]).id)
    signals = tuple(one for one in told.signals if is_own(one.rater) or call.reader.may_read(one.rater))
    return replace(told, signals=signals)

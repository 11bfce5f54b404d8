"""Kept replies over HTTP: read them, rate them, say what they should have said, and how each role is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headway.kits.reply import duels
from headway.kits.reply.client import AsyncLanguageWorker
from headway.kits.reply.duels import Duel, VoteTally
from headway.kits.reply.kept import KeptReply, kept_reply, with_replies
from headway.kits.reply.ratings import comment, latest_replies, rate, withdraw
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import Decision, PolicyRef, Settled, Signal, Time, rfc3339
from headway.project import Project
from headway.serve import Call, Text, endpoint, strict


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """Consecutive replies of a role: means of their reward, tokens and seconds."""

    wire_name = "RolePoint"
    at: Time  # when the last one was written
    replies: int
    reward: float | None
    tokens: float | None
    latency_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatistics:
    """A reply task: its latest replies as a whole and over time, the oldest first."""

    wire_name = "RoleAnswer"
    task: str
    current: str
    replies: int
    rated: int
    whole: TrendPoint | None  # of all these replies; None: there are none
    trend: tuple[TrendPoint, ...]  # oldest first


def roles(project: Project, *, window: int = 500, points: int = 30) -> list[RoleStatistics]:
    """Every reply task, by its latest `window` replies in at most `points` equal parts."""
    return [
        _role(project, task.name, window, points) for task in project.settings.tasks.values() if task.kind == "reply"
    ]


def _role(project: Project, task: str, window: int, points: int) -> RoleStatistics:
    project.settle(task)
    latest = sorted(decision.seq for decision in project.query.latest(task, window))
    rows = list(with_replies(project, project.query.outcomes(latest)))
    size = max(1, -(-len(rows) // points))
    return RoleStatistics(
        task=task,
        current=project.current(task).ref,
        replies=len(rows),
        rated=sum(row.reward is not None for row, _ in rows),
        whole=_point(rows) if rows else None,
        trend=tuple(_point(rows[start : start + size]) for start in range(0, len(rows), size)),
    )


def _point(rows: Sequence[tuple[Settled, KeptReply]]) -> TrendPoint:
    return TrendPoint(
        at=rows[-1][0].decision.at,
        replies=len(rows),
        reward=_mean([row.reward for row, _ in rows if row.reward is not None]),
        tokens=_mean([len(reply.tokens) for _, reply in rows if reply.tokens]),
        latency_s=_mean([reply.latency_s for _, reply in rows]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


_MARKS = ("stars", "thumb", "edited", "critiqued")


class ReplyRating(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller said about a reply."""

    stars: float | None = None  # 1 to 5
    thumb: float | None = None  # 1 or -1
    edit: str = ""
    critique: str = ""


class ReplyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A reply with the prompt that it answers. `rated`: by anybody."""

    id: str
    at: str
    episode: str | None
    policy: str
    prompt: str
    text: str
    model: str
    foreign: bool
    finish: str
    tokens: int
    latency_s: float
    dropped_turns: int
    rated: bool
    raters: int
    mine: ReplyRating


class RepliesAnswer(msgspec.Struct, frozen=True):
    """Replies of a task, the newest first."""

    replies: list[ReplyRow]


class RepliesQuery(strict):
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    unrated: bool = False


class RatingRequest(strict):
    """1 to 5 stars, or + and - as thumbs; it replaces the caller's earlier mark."""

    mark: Annotated[str, Meta(max_length=40)]


class CommentRequest(strict):
    """What the reply should have said (edit), or what is wrong with it (critique)."""

    kind: Literal["edit", "critique"]
    text: Text


@endpoint("GET", "/v1/tasks/{task}/replies", query=RepliesQuery, gives=RepliesAnswer, errors=(404,), scope="train")
def replies(call: Call) -> RepliesAnswer:
    """The latest replies of a task with the caller's ratings; `unrated`: those that nobody has rated."""
    project, query = call.server.project, call.query
    task = project.settings.task(call.params["task"]).name
    rows = []
    for decision, reply in latest_replies(project, task, query.limit):
        row = _row(call, decision, reply)
        if not (query.unrated and row.rated):
            rows.append(row)
    return RepliesAnswer(rows)


@endpoint(
    "PUT", "/v1/decisions/{decision}/rating", takes=RatingRequest, gives=ReplyRating, errors=(404,), scope="signal"
)
def rate_reply(call: Call, body: RatingRequest) -> ReplyRating:
    """Rate a reply with one mark."""
    rate(call.server.project, call.params["decision"], body.mark, rater=call.key)
    return _rated(call)


@endpoint("DELETE", "/v1/decisions/{decision}/rating", gives=ReplyRating, errors=(404,), scope="signal")
def withdraw_rating(call: Call) -> ReplyRating:
    """Withdraw everything that the caller said about a reply: marks, edit and critique."""
    withdraw(call.server.project, call.params["decision"], rater=call.key)
    return _rated(call)


@endpoint(
    "POST", "/v1/decisions/{decision}/comments", takes=CommentRequest, gives=ReplyRating, errors=(404,), scope="signal"
)
def comment_reply(call: Call, body: CommentRequest) -> ReplyRating:
    """Store the better text of a reply, or a critique; the caller's last one of each kind counts."""
    comment(call.server.project, call.params["decision"], body.kind, body.text, rater=call.key)
    return _rated(call)


def _rated(call: Call) -> ReplyRating:
    project, decision = call.server.project, call.params["decision"]
    call.server.metrics.count("signals", "all")
    return _rating(project.query.signals(decision, live=True), kept_reply(project, decision), call.key)


def _rating(signals: list[Signal], reply: KeptReply, rater: str) -> ReplyRating:
    values = {signal.name: signal.value for signal in signals if signal.rater == rater}
    return ReplyRating(
        stars=values.get("stars"),
        thumb=values.get("thumb"),
        edit=next((edit.text for edit in reply.edits if edit.rater == rater), ""),
        critique=next((critique.text for critique in reply.critiques if critique.rater == rater), ""),
    )


def _row(call: Call, decision: Decision, reply: KeptReply) -> ReplyRow:
    signals = call.server.project.query.signals(decision.id, live=True)
    raters = {signal.rater for signal in signals if signal.name in _MARKS}
    return ReplyRow(
        id=decision.id,
        at=rfc3339(decision.at),
        episode=decision.situation.episode,
        policy=decision.action,
        prompt=decision.situation.text,
        text=reply.text,
        model=reply.model,
        foreign=reply.foreign,
        finish=reply.finish,
        tokens=len(reply.tokens),
        latency_s=reply.latency_s,
        dropped_turns=reply.dropped_turns,
        rated=bool(raters),
        raters=len(raters),
        mine=_rating(signals, reply, call.key),
    )


# -- roles


class RolesAnswer(msgspec.Struct, frozen=True):
    roles: list[RoleStatistics]


class RolesQuery(strict):
    window: Annotated[int, Meta(ge=1, le=5000)] = 500
    points: Annotated[int, Meta(ge=1, le=200)] = 30


@endpoint("GET", "/v1/roles", query=RolesQuery, gives=RolesAnswer, scope="train")
def reply_roles(call: Call) -> RolesAnswer:
    """Reward, length and time of the latest replies of every reply task."""
    return RolesAnswer(roles(call.server.project, window=call.query.window, points=call.query.points))


_TRIES = 3  # questions, while both policies give the same reply
_VALUES = {"left": 1.0, "right": 0.0, "neither": 0.5}
Policy = Annotated[str, Meta(max_length=200)]


class DuelRequest(strict):
    """Whom to compare: by default the newest candidate and the current policy."""

    policy: Policy | None = None
    against: Policy | None = None


class DuelVote(strict):
    """Which reply is better."""

    preferred: Literal["left", "right", "neither"]


class VotedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Which policy wrote which reply, under which decision the vote is stored, and the votes so far."""

    decision: str
    left: str
    right: str
    votes: VoteTally


class VotesQuery(strict):
    policy: Policy | None = None
    against: Policy | None = None


@endpoint(
    "POST",
    "/v1/tasks/{task}/duels",
    takes=DuelRequest,
    gives=Duel,
    status=201,
    errors=(404, 409, 503),
    scope="decide",
    optional=True,
)
async def open_duel(call: Call, body: DuelRequest) -> Duel:
    """Two replies to a held-out question, one of each policy, in an order that is not disclosed before the vote."""
    server, task = call.server, call.params["task"]
    project = server.project
    call.need("signal")
    tried: list[str] = []
    while True:
        choose = partial(duels.choose, tried=tuple(tried), reader=call.reader)
        asked = await server.in_reading_thread(call.key, choose, project, task, body.policy, body.against)
        mine, theirs = await asyncio.gather(
            *(_written(project, asked, policy) for policy in (asked.candidate, asked.against))
        )
        tried.append(asked.question)
        if mine != theirs or len(tried) == _TRIES:
            break
    return await call.in_thread(lambda: duels.seal(project, asked, (mine, theirs), key=call.key))


async def _written(project: Project, asked: duels.DuelQuestion, policy: str) -> str:
    """A reply of the worker; the server holds no model."""
    adapter = "" if PolicyRef.parse(policy).built_in else project.registry.find(policy)
    base = base_of(reply_settings(project.settings.task(asked.task)).base, project.folder)
    worker = AsyncLanguageWorker(project.folder, base, adapter=adapter)
    (reply,) = await worker.generate([asked.prompt])
    return reply.text.strip()


@endpoint(
    "POST",
    "/v1/tasks/{task}/duels/{duel}/vote",
    takes=DuelVote,
    gives=VotedAnswer,
    errors=(404, 409),
    scope="signal",
    reads=True,
)
def vote_duel(call: Call, body: DuelVote) -> VotedAnswer:
    """Store which reply is better; the answer says who wrote them. A comparison takes one vote."""
    from headway.kits.reply.preference import vote_tally

    project, task = call.server.project, call.params["task"]
    voted = duels.vote(project, task, call.params["duel"], _VALUES[body.preferred], rater=call.key)
    call.server.metrics.count("decisions", task)
    call.server.metrics.count("signals", "all")
    first, second = project.query.decision(voted.decision).candidates
    tally = vote_tally(project, task, first.name, second.name)
    return VotedAnswer(decision=voted.decision, left=voted.left, right=voted.right, votes=tally)


@endpoint("GET", "/v1/tasks/{task}/votes", query=VotesQuery, gives=VoteTally, errors=(404,), scope="train")
def votes(call: Call) -> VoteTally:
    """The votes on two policies so far; by default on the newest candidate and the current policy."""
    from headway.kits.reply.preference import vote_tally

    project, query, task = call.server.project, call.query, call.params["task"]
    return vote_tally(project, task, *duels.opponents(project, task, query.policy, query.against))

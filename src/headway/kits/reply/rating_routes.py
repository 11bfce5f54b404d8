"""Kept replies over HTTP: read them, rate them, say what they should have said, and how each role is doing."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headway.kits.reply.kept import KeptReply, kept_reply
from headway.kits.reply.ratings import comment, latest_replies, rate, withdraw
from headway.kits.reply.roles import RoleStatistics, roles
from headway.nouns.records import Decision, Signal
from headway.nouns.times import rfc3339
from headway.serve.endpoint import Call, endpoint, strict
from headway.serve.wire import Text

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

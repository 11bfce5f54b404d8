"""Blind comparisons over HTTP: a pair of replies without names, the vote, and the votes so far."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headway.kits.reply import duels
from headway.kits.reply.client import AsyncLanguageWorker
from headway.kits.reply.duels import Duel, VoteTally
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import PolicyRef
from headway.project import Project
from headway.serve import Call, endpoint, strict

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

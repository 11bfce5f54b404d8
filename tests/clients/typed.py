"""The types of a project and of both clients, for a strict type checker. `make lint` checks this file; nothing runs it.

A line with `type: ignore` is an error that the checker must find: an unused ignore fails the check.
"""

from __future__ import annotations

from typing import Any, assert_type

import headway
from headway.client import AsyncClient, Client, Decided, Event


def right_here() -> None:
    with headway.open() as project:
        assert_type(project.learn("route", family="bandit", depth=2), str)
        assert_type(project.prove(against="current"), headway.Verdict)
        assert_type(project.withdraw("dec_1", "solved", rater="ann"), None)
        project.prove(agianst="current")  # type: ignore[call-arg]
        project.plan("route", uplift="much")  # type: ignore[arg-type]


def right() -> None:
    with Client("http://127.0.0.1:1") as client:
        assert_type(client, Client)
        pick = client.decide("route", "text", ["small"], state={"a": 1}, id=None)
        assert_type(pick, Decided)
        assert_type(client.decide_many([{"task": "route", "step": 1}]), list[Decided])
        assert_type(client.signal(pick.id, {"reward": 1.0}, early=True, cost=None), int)
        assert_type(client.policies(), list[dict[str, Any]])
        assert_type(client.episode("route", "e"), str)
        client.end_episode("route", "e", "truncated")
        with client.decision("route", role="coder") as pick:
            assert_type(pick, Decided)
        for event in client.events():
            assert_type(event, Event)


async def right_awaited() -> None:
    async with AsyncClient("http://127.0.0.1:1") as client:
        assert_type(client, AsyncClient)
        pick = await client.decide("route", "text", ["small"], state={"a": 1})
        assert_type(pick, Decided)
        assert_type(await client.decide_many([{"task": "route"}]), list[Decided])
        assert_type(await client.rollback("route", why="because"), dict[str, Any])
        async with client.decision("route") as pick:
            assert_type(pick, Decided)
        async for event in client.events():
            assert_type(event, Event)


async def wrong(client: Client, later: AsyncClient) -> None:
    client.decide()  # type: ignore[call-arg]  # a task is missing
    client.decide("route", sate={})  # type: ignore[call-arg]  # misspelt
    client.decide_many([{"tsak": "route"}])  # type: ignore[typeddict-unknown-key]  # misspelt
    client.signal("dec_1", reward="good")  # type: ignore[arg-type]  # not a number
    client.end_episode("route", "e", "over")  # type: ignore[arg-type]  # not an ending
    client.promote("bandit@1", "route")  # type: ignore[call-arg]  # the task goes by name
    client.decide("route").decision  # type: ignore[attr-defined]  # noqa: B018
    later.decide("route").id  # type: ignore[attr-defined]  # noqa: B018 — not awaited

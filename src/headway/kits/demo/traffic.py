"""The demo's users: `python -m headway.kits.demo.traffic FOLDER --url URL` decides and rates over HTTP like any client.

It prints one line per event of the story, and slows down once the story has ended. The server marks everything as
synthetic; a client cannot.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx

from headway.kits.demo.planted import PLANTED, plant
from headway.kits.demo.routing import LARGE, SMALL, RoutingPrompt, two_arms
from headway.nouns import errors

_RATE = {"route": 24.0, "draft": 20.0}  # decisions per second while the story lasts
_AFTER = 1.5  # for both tasks together, afterwards
_UNRATED = 0.003  # well below the share of open outcomes at which evidence waits for them
_COST_USD = {arm.name: arm.cost / 20.0 for arm in (SMALL, LARGE)}  # the task's reward subtracts 20 per dollar
_HOUSE, _VENDOR, _DEGRADED = 0.62, 0.82, 0.25  # how often a draft is accepted
_TURN_AFTER = 600  # drafts after the vendor's promotion, before its model degrades
_SHARE = 0.2  # of the traffic, for the harmful candidate as a canary
_TRIES = 8


class Demo:
    """Traffic over HTTP, and a plot that follows the ledger."""

    def __init__(self, folder: Path, url: str, say: Callable[[str], None], *, seed: int = 7) -> None:
        self.folder = folder
        self.events: set[str] = set()
        self._url = url
        self._say = say
        self._random = Random(seed)
        self._prompts = {task: _endless(seed + place) for place, task in enumerate(_RATE)}
        self._degraded = False
        self._drafts = 0
        self._adopted_at: int | None = None  # drafts before the vendor was promoted
        self._planted = ""

    async def run(self) -> None:
        """Run until cancelled."""
        async with httpx.AsyncClient(base_url=self._url, timeout=10.0) as client, asyncio.TaskGroup() as group:
            for task in _RATE:
                group.create_task(self._users(client, task, group))
            group.create_task(self._plot(client))

    @property
    def story_over(self) -> bool:
        """The loop promoted a policy, ended the harmful canary, and recovered from the vendor's bad model."""
        return {"promoted", "ended", "recovered"} <= self.events

    # -- users

    async def _users(self, client: httpx.AsyncClient, task: str, group: asyncio.TaskGroup) -> None:
        """Send prompts at random times; several may be in progress."""
        while True:
            rate = _AFTER / len(_RATE) if self.story_over else _RATE[task]
            await asyncio.sleep(self._random.expovariate(rate))
            group.create_task(self._one(client, task, next(self._prompts[task])))

    async def _one(self, client: httpx.AsyncClient, task: str, prompt: RoutingPrompt) -> None:
        body: dict[str, Any] = {"task": task, "text": prompt.text, "role": prompt.role, "id": str(uuid.uuid4())}
        if task == "route":
            body["state"] = dict(prompt.state)
        answer = await self._post(client, "/v1/decisions", body)
        if answer is None:
            return
        signals: dict[str, Any] = self._outcome(task, prompt, str(answer["action"]))
        if self._random.random() < _UNRATED:  # the cost of the call is known
            signals = {name: value for name, value in signals.items() if name in ("cost_usd", "latency_s")}
        await asyncio.sleep(self._random.expovariate(2.0))  # people need a moment to rate
        await self._post(client, f"/v1/decisions/{answer['id']}/signals", signals)

    def _outcome(self, task: str, prompt: RoutingPrompt, action: str) -> dict[str, Any]:
        latency = self._random.lognormvariate(0.0, 0.4) * {"small": 0.4, "large": 1.6}.get(action, 0.8)
        if task == "route":
            cost = next(arm.cost for arm in (SMALL, LARGE) if arm.name == action)
            solved = prompt.outcome(action) + cost
            return {"solved": round(solved, 6), "cost_usd": _COST_USD[action], "latency_s": round(latency, 3)}
        self._drafts += 1
        chance = _HOUSE if action == "house" else _DEGRADED if self._degraded else _VENDOR
        return {"accepted": 1.0 if self._random.random() < chance else 0.0, "latency_s": round(latency, 3)}

    async def _post(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; retried while the server is unavailable, which is safe because requests carry a client id."""
        for tries in range(_TRIES):
            try:
                answer = await client.post(path, json=body)
                if answer.status_code < 400:
                    return dict(answer.json()) if answer.content else {}
                if answer.status_code not in (429, 503):
                    self._once(f"status {answer.status_code}", f"the server answered {answer.text[:200]}")
                    return None
            except httpx.HTTPError:
                pass
            await asyncio.sleep(min(2.0, 0.1 * 2**tries))
        return None

    # -- the plot

    async def _plot(self, client: httpx.AsyncClient) -> None:
        """Read the ledger twice a second and advance the story."""
        while True:
            await asyncio.sleep(0.5)
            try:
                rows = (await client.get("/v1/ledger")).json()["ledger"]
                await self._follow(rows)
            except (httpx.HTTPError, ValueError, KeyError):
                continue  # the server is restarting

    async def _follow(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if "ramp" in (row.get("detail") or {}):
                self._once(f"step {row['seq']}", f"{row['policy']} {row['why']}")
        await self._follow_route([row for row in rows if row["task"] == "route"])
        self._follow_draft([row for row in rows if row["task"] == "draft"])

    async def _follow_route(self, rows: list[dict[str, Any]]) -> None:
        """Once a policy is promoted, a harmful candidate is planted: the gate must refuse it."""
        for row in rows:
            if row["why"] == PLANTED:
                self._planted = row["policy"]  # by an earlier run, or just now
        promoted = [row for row in rows if row["kind"] == "promote"]
        if promoted:
            self._once("promoted", f"{promoted[0]['policy']} was learned, proven and promoted by the gate")
            if not self._planted:
                self._planted = await asyncio.to_thread(self._plant)
                self._once("planted", f"a harmful candidate was planted: {self._planted}")
        if self._planted and "refused" not in self.events:
            await asyncio.to_thread(self._ask_gate)
        await self._follow_canary([row for row in rows if row["policy"] == self._planted])

    def _ask_gate(self) -> None:
        """Ask for the promotion of the harmful candidate, as a careless person would; the loop would not test it."""
        from headway.project import Project

        try:
            with Project(self.folder) as project:
                verdict = project.prove(self._planted, task="route")
        except errors.HeadwayError:
            return  # nothing can be said about it yet
        if verdict.state in ("refused", "worse"):
            self._once("refused", f"the gate refused {self._planted}: {' '.join(verdict.reasons)}")

    async def _follow_canary(self, rows: list[dict[str, Any]]) -> None:
        """A person gives the refused candidate a share of the traffic anyway; the loop must end that."""
        started = [place for place, row in enumerate(rows) if row["kind"] == "canary"]
        if "refused" in self.events and not started:
            await asyncio.to_thread(self._give_share)
        ended = [row for row in rows[started[0] :] if row["kind"] == "retire"] if started else []
        if ended:
            self._once("ended", f"the harmful canary was ended: {ended[0]['why']}")

    def _give_share(self) -> None:
        from headway.project import Project

        with suppress(errors.HeadwayError), Project(self.folder) as project:  # tried again at the next look
            project.canary(self._planted, share=_SHARE, task="route", who="demo")
            self._once(
                "canary",
                f"{self._planted} decides on {_SHARE:.0%} of the traffic as a canary anyway, to show the safety net",
            )

    def _follow_draft(self, rows: list[dict[str, Any]]) -> None:
        changes = [row for row in rows if row["kind"] in ("promote", "rollback")]
        opened = [row for row in rows if row["kind"] == "experiment" and row["detail"].get("share")]
        alarms = [row for row in rows if row["kind"] == "alarm" and "ended" not in row["detail"]]
        if opened:
            share = opened[0]["detail"]["share"]
            self._once("experiment", f"an experiment began: {opened[0]['policy']} writes {share:.0%} of the drafts")
        if changes:
            self._once("adopted", f"the experiment ended: {changes[0]['policy']}, which prefers the vendor, is current")
            self._degrade()
        if alarms and self._degraded:
            self._once("alarm", f"an alarm was raised: {alarms[-1]['why']}")
        if len(changes) > 1 and "degraded" in self.events:
            back = changes[-1]
            self._once("recovered", f"the loop recovered: {back['policy']} decides now, {back['why']}")
            self._degraded = False
            self._once("repaired", "the vendor repaired its model")

    def _degrade(self) -> None:
        """Some time after its promotion, the vendor's model gets worse."""
        if self._adopted_at is None:
            self._adopted_at = self._drafts
        if "degraded" not in self.events and self._drafts - self._adopted_at >= _TURN_AFTER:
            self._degraded = True
            self._once("degraded", "the vendor changed its model without notice: its drafts are bad now")

    def _plant(self) -> str:
        from headway.project import Project

        with Project(self.folder) as project:
            return plant(project)

    def _once(self, key: str, line: str) -> None:
        if key not in self.events:
            self.events.add(key)
            self._say(line)


def _endless(seed: int) -> Iterator[RoutingPrompt]:
    """Endless prompts of the sample world, different at every start."""
    start = int(time.time()) % 1_000_000
    while True:
        yield from two_arms().sample(5000, seed * 1_000_003 + start)
        start += 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway.kits.demo.traffic", description="Synthetic users for the demo.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", required=True)
    options = parser.parse_args(arguments)
    asyncio.run(Demo(options.folder, options.url, _say).run())
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

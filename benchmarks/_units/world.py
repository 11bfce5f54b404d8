"""Requests to two upstreams that fail in many ways, made in a project as the proxy makes them, with the truth beside.

    with Client(SETTINGS, seed=7) as client:
        truth = Requests(client, "outage", seed=7).serve(500)
        truth.saved, truth.ratio                     # of the policy against always `large`, where there was a choice

An attempt is refused (and free), runs into a timeout (billed, nobody knows how much), or answers; an answer may break
off (failed, cost unknown), or the client may leave (no rating, cost unknown). After a refusal or a timeout the other
upstream is tried; a 429 is sent again with a second key. A breaker takes an upstream that is down out of the candidates
after some failures. The truth of a request is closed: what each first choice leads to on average, in its situation and
with the upstreams as they were.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from _situations.client import BLOCK, Client

from headway.nouns.records import Signal
from headway.project import Ask

__all__ = ["KINDS", "SETTINGS", "Requests", "Truth"]

FLOOR = 0.3
SETTINGS = f"""unit = "request"
actions = ["large", "small"]
range = [0, 1]
reward = {{ solved = 1.0 }}
floor = {FLOOR}
fallback = "small"
reward_after_s = 3600
state = ["x"]
rules = [{{ when = "x > 0.7", use = "large" }}]
"""
ARMS = ("large", "small")
KINDS = ("plain", "outage", "flaky", "retries", "timeouts", "cuts", "disconnects", "all")
_OPENS, _CLOSES = 5, 40  # failures in a row that open the breaker, and requests until it lets one through again


class _Odds(NamedTuple):
    """Chances of an attempt, by what goes wrong."""

    refused: float = 0.0
    limited: float = 0.0  # 429, then sent again
    timeout: float = 0.0
    cut: float = 0.0
    left: float = 0.0


_ODDS = {
    "plain": _Odds(),
    "outage": _Odds(),
    "flaky": _Odds(refused=0.25),
    "retries": _Odds(limited=0.2),
    "timeouts": _Odds(timeout=0.02),
    "cuts": _Odds(cut=0.03),
    "disconnects": _Odds(left=0.02),
    "all": _Odds(refused=0.1, limited=0.05, timeout=0.005, cut=0.01, left=0.01),
}


@dataclass(slots=True)
class Truth:
    """What was really made, paid and solved."""

    requests: int = 0
    attempts: int = 0
    choices: int = 0  # requests in which both upstreams could be chosen
    statuses: Counter[str] = field(default_factory=Counter)
    first: Counter[str] = field(default_factory=Counter)
    paid: float = 0.0  # what was reported
    ours: np.ndarray = field(default_factory=lambda: np.zeros(2))  # Σ (cost, quality) of the policy, with a choice
    always: dict[str, np.ndarray] = field(default_factory=lambda: {arm: np.zeros(2) for arm in ARMS})

    def saved(self, against: str) -> float:
        """Per 1,000 requests."""
        return float(self.always[against][0] - self.ours[0]) / self.choices * 1000.0

    def ratio(self, against: str) -> float:
        return float(self.ours[1] / self.always[against][1])

    def gap(self, against: str) -> float:
        return float(self.ours[1] - self.always[against][1]) / self.choices


class _Made(NamedTuple):
    """A request on its way."""

    x: float
    tokens: float
    down: str
    offered: tuple[str, ...]


class Requests:
    """The traffic of one project."""

    def __init__(self, client: Client, kind: str, *, seed: int) -> None:
        self.client, self.rng = client, np.random.default_rng([seed, 3])
        self.kind, self.odds = kind, _ODDS[kind]
        self.prices = {"large": 0.01, "small": float(self.rng.uniform(0.0005, 0.004))}
        self.hard = {"large": float(self.rng.uniform(0.1, 0.4)), "small": float(self.rng.uniform(0.3, 0.8))}
        self.truth = Truth()
        self._failures, self._closed_for = 0, 0
        self._down = ""
        self._until = 0

    def quality(self, arm: str, x: float) -> float:
        return 0.95 - self.hard[arm] * x

    def serve(self, count: int) -> Truth:
        """So many requests, in blocks: the first attempts together, then the next ones."""
        while self.truth.requests < count:
            self._block(min(BLOCK, count - self.truth.requests))
        self.client.clock.now += 90_000.0
        self.client.project.settle(self.client.task)
        return self.truth

    def _block(self, count: int) -> None:
        project, task = self.client.project, self.client.task
        made = [self._next() for _ in range(count)]
        firsts = self._decided([self._ask(one, one.offered) for one in made])
        signals: list[Signal] = []
        waiting = list(zip(made, firsts, firsts, [one.offered for one in made], [True] * count, strict=True))
        for one, first in zip(made, firsts, strict=True):
            self.truth.first[first.action] += 1
            self._expect(one)
        while waiting:
            self.truth.attempts += len(waiting)
            again = []
            for one, first, attempt, offered, fresh in waiting:
                tried, said = self._attempt(one, attempt.action, limited=fresh)
                signals += self._signals(attempt.id, said)
                left = offered if tried == "same" else tuple(arm for arm in offered if arm != attempt.action)
                if tried == "same":
                    again.append((one, first, (attempt.action,), left, False))
                elif tried == "other" and left:
                    again.append((one, first, left, left, fresh))
                else:
                    self.truth.statuses[self._status(tried, said)] += 1
            asks = [self._ask(one, arms, unit=first.id) for one, first, arms, _, _ in again]
            later = self._decided(asks) if asks else []
            waiting = [
                (one, first, attempt, left, fresh)
                for (one, first, _, left, fresh), attempt in zip(again, later, strict=True)
            ]
        self.client.clock.now += 60.0 * count
        project.submit_signals(signals).result()
        project.settle(task)

    def _decided(self, asks: list[Ask]) -> list[Any]:
        project = self.client.project
        considered = [project.consider(ask.task, ask.text, ask.candidates, **ask.details) for ask in asks]
        return list(project.submit(considered).result())

    def _next(self) -> _Made:
        self._outage()
        x, tokens = float(self.rng.random()), float(self.rng.lognormal(0.0, 0.4))
        offered = tuple(arm for arm in ARMS if not (arm == self._down and self._failures >= _OPENS))
        if self._down and self._down not in offered:
            self._closed_for += 1
            if self._closed_for >= _CLOSES:  # half open: one request is let through
                self._closed_for, offered = 0, ARMS
        self.truth.requests += 1
        return _Made(x, tokens, self._down, offered)

    def _outage(self) -> None:
        if self.kind not in ("outage", "all"):
            return
        if self._until <= 0:
            self._down = "" if self._down else str(self.rng.choice(ARMS))
            self._failures = self._closed_for = 0
            self._until = int(self.rng.integers(40, 160))
        self._until -= 1

    def _ask(self, one: _Made, offered: tuple[str, ...], **details: Any) -> Ask:
        details |= {"id": self.client.next_id(), "state": {"x": one.x}}
        return Ask(self.client.task, "", list(offered), details)

    # -- one attempt

    def _attempt(self, one: _Made, arm: str, *, limited: bool) -> tuple[str, dict[str, float]]:
        """(what to try next: "other", "same" or ""), and its signals."""
        odds, u = self.odds, float(self.rng.random())
        if arm == one.down:
            self._failures += 1
            return "other", {"failed": 1.0, "http_status": 503.0}
        if limited and self.rng.random() < odds.limited:
            return "same", {"failed": 1.0, "http_status": 429.0}
        if u < odds.refused:
            return "other", {"failed": 1.0, "http_status": 500.0}
        if u < odds.refused + odds.timeout:
            return "other", {"failed": 1.0}
        cost = self.prices[arm] * one.tokens
        v = float(self.rng.random())
        if v < odds.cut:
            return "", {"failed": 1.0, "http_status": 200.0}
        if v < odds.cut + odds.left:
            return "", {"http_status": 200.0}
        self.truth.paid += cost
        return "", {
            "cost_usd": cost, "http_status": 200.0, "solved": float(self.rng.random() < self.quality(arm, one.x)),
        }  # fmt: skip

    def _status(self, tried: str, said: dict[str, float]) -> str:
        if tried or "failed" in said:
            return "failed"
        return "rewarded" if "solved" in said else "censored"

    def _signals(self, decision: str, said: dict[str, float]) -> list[Signal]:
        now = self.client.clock.now + 5.0
        return [Signal(subject=decision, name=name, value=value, rater="", at=now) for name, value in said.items()]

    # -- what each first choice leads to

    def _expect(self, one: _Made) -> None:
        if len(one.offered) < 2:
            return
        self.truth.choices += 1
        best = "large" if one.x > 0.7 else "small"
        for arm in ARMS:
            whole = np.array(self._after(one, arm, one.offered))
            self.truth.always[arm] += whole
            self.truth.ours += whole * ((1.0 - FLOOR) * (arm == best) + FLOOR / 2.0)

    def _after(self, one: _Made, arm: str, offered: tuple[str, ...]) -> tuple[float, float]:
        """(cost, quality) to expect of a request whose next attempt goes to `arm`."""
        odds, left = self.odds, tuple(other for other in offered if other != arm)
        rest = self._after(one, left[0], left) if left else (0.0, 0.0)
        if arm == one.down:
            return rest
        price = self.prices[arm] * one.tokens
        answered = 1.0 - odds.refused - odds.timeout
        cost = odds.timeout * price + answered * price * (1.0 - (odds.cut + odds.left) / 2.0)
        quality = answered * (1.0 - odds.cut) * self.quality(arm, one.x)
        lost = odds.refused + odds.timeout
        return cost + lost * rest[0], quality + lost * rest[1]

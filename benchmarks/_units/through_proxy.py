"""Projects through the real proxy: a server process, the OpenAI SDK, and model servers that fail as a script says.

`play(seed)` runs one project and returns how many of its numbers were compared with the truth, and those that differ.
The truth is what the model servers did and what the client got; the store is read only after the server has stopped.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from openai import APIError, OpenAI

import headway
from _units.scripted import Act, Served, ServedCall
from headway.nouns import Decision
from headway.project import Project, outages

PRICES = {"small": (1.0, 2.0, 0.25), "large": (10.0, 20.0, 2.5)}  # per million tokens: in, out, from the cache
FAILURES, WAIT_S = 3, 0.4  # of the breakers
RATER = "proxy:"
_TASK = """[tasks.route]
actions = ["small", "large"]
required = ["solved"]
reward = { solved = 1.0 }
range = [0.0, 1.0]
on_failure = 0.0
explore = { kind = "epsilon", value = 0.5 }
rules = [{ when = "text_length >= 0", use = "small" }]
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of the client, and what came of it."""

    number: int
    way: str  # whole, stream, leave or again
    key: str
    status: str  # answered, failed, refused or left
    decision: str
    solved: float | None


@dataclass(slots=True)
class Checked:
    """Comparisons with the truth, and those that failed."""

    compared: int = 0
    wrong: list[str] = field(default_factory=list)

    def equal(self, what: str, found: object, true: object) -> None:
        self.compared += 1
        if found != true:
            self.wrong.append(f"{what}: {found!r}, truly {true!r}")

    def holds(self, what: str, true: bool) -> None:
        self.equal(what, true, True)


def script(seed: int, requests: int) -> tuple[Callable[[str, int, int], Act], dict[int, str]]:
    """What every upstream does with a request, and how the client sends it."""
    rng = random.Random(seed)
    down = {
        "small": _window(rng, requests),
        "large": _window(rng, requests) if seed % 3 == 0 else range(0),
    }
    how: Mapping[str, Act] = {"small": rng.choice(["error", "busy", "nonsense"]), "large": "error"}
    single: dict[tuple[str, int], Act] = {}
    for number in range(requests):
        drawn = rng.random()
        if drawn < 0.2:
            single[rng.choice(("small", "large")), number] = rng.choice(["error", "busy", "nonsense", "cut"])
        elif drawn < 0.23:
            single["small", number] = "hang"
        elif drawn < 0.27:
            single["small", number] = single["large", number] = "refuse"
    ways = {number: rng.choices(("whole", "stream", "leave", "again"), (6, 4, 1, 1))[0] for number in range(requests)}

    def act(upstream: str, number: int, earlier: int) -> Act:
        if number in down[upstream]:
            return how[upstream]
        drawn = single.get((upstream, number), "ok") if earlier == 0 else "ok"
        return "ok" if drawn == "cut" and ways[number] == "leave" else drawn  # either breaks it off, not both at once

    return act, ways


def _window(rng: random.Random, requests: int) -> range:
    start = rng.randrange(requests // 6, requests // 2)
    return range(start, start + requests // 4)


def play(seed: int, requests: int = 60) -> Checked:
    """One project of so many requests."""
    act, ways = script(seed, requests)
    served = Served(act)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "headway.toml").write_text(_settings(served))
        process, url = _start(folder)
        try:
            sent = list(_send_all(url, seed, ways, keyed=seed % 2 == 0))
            _drained(url)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            served.close()
        with headway.open(folder, environ={}) as project:
            return _check(project, sent, served.calls)


def _settings(served: Served) -> str:
    tables = [_TASK]
    for upstream, (price_in, price_out, price_cached) in PRICES.items():
        tables.append(
            f'[upstreams.{upstream}]\nurl = "{served.url(upstream)}"\nmodel = "{upstream}"\nprice_in = {price_in}\n'
            f"price_out = {price_out}\nprice_cached = {price_cached}\ntimeout_s = 1.0\n"
            f"breaker_failures = {FAILURES}\nbreaker_wait_s = {WAIT_S}\n"
        )
    return "\n".join(tables)


def _start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "headway.serve", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    return process, str(json.loads(process.stdout.readline())["url"])


def _send_all(url: str, seed: int, ways: Mapping[int, str], *, keyed: bool) -> Iterator[Sent]:
    """Every request one after another, as an application sends them: with the SDK's own retries where it has a key."""
    with (
        OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=2 if keyed else 0) as client,
        httpx.Client(base_url=url, timeout=30) as plain,
    ):
        for number, way in ways.items():
            key = f"{seed}-{number}" if keyed or way == "again" else ""
            status, decision = _send_one(client, number, way, key)
            if way == "again" and status == "answered":  # the application sends it a second time
                again = _send_one(client, number, way, key)
                assert again[1] == decision, "a repeated request got another id"
            solved = None
            if status == "answered" and decision:
                solved = float((number * 7 + seed) % 3 != 0)
                plain.post(f"/v1/decisions/{decision}/signals", json={"solved": solved}).raise_for_status()
            yield Sent(number, way, key, status, decision, solved)


def _send_one(client: OpenAI, number: int, way: str, key: str) -> tuple[str, str]:
    text = f"Say good morning, request {number}." + (" Never end." if way == "leave" else "")
    ask: dict[str, Any] = {
        "model": "headway/route",
        "messages": [{"role": "user", "content": text}],
        "extra_headers": {"Idempotency-Key": key} if key else {},
    }
    try:
        if way in ("whole", "again"):
            return "answered", client.chat.completions.create(**ask).id
        decision = ""
        with client.chat.completions.create(**ask, stream=True) as stream:
            for place, chunk in enumerate(stream):
                decision = chunk.id
                if way == "leave" and place == 1:
                    return "left", decision
        return "answered", decision
    except APIError as error:
        response = getattr(error, "response", None)
        if response is None:  # a stream that broke off
            return "failed", decision
        return "refused" if response.status_code == 400 else "failed", response.headers.get("x-headway-decision", "")


def _drained(url: str) -> None:
    """Wait until no call is running: the signals of clients that left are stored."""
    while "headway_upstream_calls 0" not in httpx.get(f"{url}/metrics", timeout=30).text:
        pass


# -- the comparison


def _check(project: Project, sent: list[Sent], calls: list[ServedCall]) -> Checked:
    checked = Checked()
    project.settle("route")
    rows = list(project.query.decisions("route"))
    leads = {row.id: row for row in rows if not row.unit}
    status = next(task for task in project.status().tasks if task.task == "route")
    checked.equal("requests", len(leads), len(sent))
    checked.equal("requests in status", status.units, len(sent))
    checked.equal("attempts", len(rows), len(calls))
    checked.equal("ids", {one.decision for one in sent}, set(leads))
    by_request: dict[int, list[ServedCall]] = {}
    for call in calls:
        by_request.setdefault(call.request, []).append(call)
    for one in sent:
        _check_request(project, checked, one, by_request[one.number])
    _check_totals(project, checked, sent)
    _check_outages(project, checked, rows, calls)
    return checked


def _check_request(project: Project, checked: Checked, one: Sent, calls: list[ServedCall]) -> None:
    attempts = project.query.request(one.decision)
    name = f"request {one.number} ({one.way}, {one.status})"
    checked.equal(f"{name}: upstreams", [row.action for row in attempts], [call.upstream for call in calls])
    first = attempts[0]
    checked.holds(f"{name}: propensity", first.propensity == first.probabilities[first.index])
    told = project.explain(one.decision)
    checked.equal(f"{name}: lanes", [lane.upstream for lane in told.attempts or ()], [call.upstream for call in calls])
    answering = calls[-1].upstream if one.status == "answered" else ""
    checked.equal(f"{name}: served", told.served, answering)
    outcome = told.outcome
    true = {"answered": "rewarded", "failed": "failed"}.get(one.status, "pending")
    checked.equal(f"{name}: outcome", outcome.status, true)
    if one.solved is not None:
        checked.equal(f"{name}: quality", outcome.reward, one.solved)
    spent, known = _cost(calls, one)
    values = project.query.values([bytes.fromhex(one.decision[4:])]).get(bytes.fromhex(one.decision[4:]), {})
    if known:
        checked.holds(
            f"{name}: cost {values.get('cost_usd')} is {spent}", abs(values.get("cost_usd", -1) - spent) < 1e-12
        )
    else:
        checked.holds(f"{name}: cost is unknown, not {values.get('cost_usd')}", "cost_usd" not in values)
    took = values.get("latency_s", 0.0)
    if one.status != "left":
        checked.holds(
            f"{name}: latency {took}", took >= sum(min(1.0, call.ended - call.arrived) for call in calls) * 0.5
        )


def _cost(calls: list[ServedCall], one: Sent) -> tuple[float, bool]:
    """What the calls of a request cost, and whether the servers said so."""
    spent, known = 0.0, True
    for call in calls:
        price_in, price_out, price_cached = PRICES[call.upstream]
        tokens = (call.prompt - call.cached) * price_in + call.cached * price_cached + call.completion * price_out
        left = one.way == "leave" and call is calls[-1] and one.status == "left"
        if call.act in ("hang", "nonsense", "cut") or left:
            known = False
        elif call.act == "ok":
            spent += tokens / 1e6
    return spent, known


def _check_totals(project: Project, checked: Checked, sent: list[Sent]) -> None:
    counts = project.query.counts("route")
    ended = Counter({"answered": "rewarded", "failed": "failed"}.get(one.status, "pending") for one in sent)
    for status in ("rewarded", "failed"):
        checked.equal(f"{status} in all", counts.by_status.get(status, 0), ended[status])
    gone = sum(1 for row in project.query.decisions("route") if _says(project, row, "client_gone"))
    checked.equal("clients that left", gone, sum(one.status == "left" for one in sent))


def _says(project: Project, row: Decision, name: str) -> bool:
    return any(signal.name == name and signal.rater == RATER for signal in project.query.signals(row.id, live=True))


def _check_outages(project: Project, checked: Checked, rows: list[Decision], calls: list[ServedCall]) -> None:
    """Every run of failures that opened a breaker: who, since when, until when, how many went elsewhere."""
    told = outages(project, "route")
    true = [run for upstream in PRICES for run in _runs([call for call in calls if call.upstream == upstream])]
    true.sort(key=lambda run: run[0].arrived)
    checked.equal("outages", [one.upstream for one in told], [run[0].upstream for run in true])
    downs = [project.explain(row.id) for row in rows if not row.unit]
    for one, run in zip(told, true, strict=False):
        failing = [call for call in run if call.fails]
        end = run[-1] if not run[-1].fails else None
        name = f"outage of {one.upstream}"
        own = [call for call in calls if call.upstream == one.upstream]
        before = [call for call in own if call.arrived < failing[0].arrived]
        checked.equal(f"{name}: calls that failed", one.failures, len(failing))
        checked.holds(f"{name}: begins with its first failure", one.since <= failing[0].arrived)
        checked.holds(f"{name}: does not begin earlier", not before or one.since >= before[-1].arrived)
        checked.equal(f"{name}: over", one.until is None, end is None)
        if end is not None and one.until is not None:
            checked.holds(f"{name}: ends with the next success", one.until >= end.arrived)
            later = [call for call in own if call.arrived > end.ended]
            checked.holds(f"{name}: does not end later", not later or one.until <= later[0].ended)
        until = one.until or float("inf")
        away = 0
        for request in downs:
            lanes = request.attempts or ()
            times = [lane for lane in lanes if one.since <= lane.at <= until]
            out = any(one.upstream in lane.left_out for lane in times)
            moved = any(
                lane.upstream == one.upstream and lane.status == "failed" and one.since <= lane.at <= until
                and place + 1 < len(lanes) and lanes[place + 1].upstream != one.upstream
                for place, lane in enumerate(lanes)
            )  # fmt: skip
            away += out or moved
        checked.equal(f"{name}: requests that went elsewhere", one.elsewhere, away)


def _runs(calls: list[ServedCall]) -> Iterator[list[ServedCall]]:
    """Runs of failures that are long enough to open a breaker, each with the success that ended it, if any did."""
    run: list[ServedCall] = []
    for call in calls:
        if call.act == "refuse" or call.gone:
            continue
        run.append(call)
        if not call.fails:
            if len(run) > FAILURES:
                yield run
            run = []
    if len(run) >= FAILURES:
        yield run

"""One key that asks for everything that is expensive, beside another key that decides and asks for replies.

    python -m tests.attacks.stalls [--replies 20000] [--connections 12] [--seconds 3] [--only duels]

The store holds so many rated replies, a tenth as many comparisons, and as many decisions with a cost. For every route
that reads, twelve connections of a key that has asked for nothing yet ask for it without a pause, while the key `calm`
works; its medians are compared with those of the same key alone. What is refused with 429 is refused to the busy key.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

import headway
from headway.kits.models.language import Turn
from headway.kits.reply.kept import KeptReply, to_details
from headway.observe.keys import Keys
from headway.project import Project
from tests.attacks.language_worker import recording_worker
from tests.attacks.server import Target, target
from tests.kits.reply.test_sealed_duels import publish_candidate

__all__ = ["HEAVY", "WRITING", "Stall", "attack", "reading_routes"]

TOML = """
[tasks.reply]
kind = "reply"

[tasks.route]
actions = ["small", "large"]

[tasks.route.reward]
solved = 1.0
cost_usd = -1.0

[tasks.order]
kind = "ranking"
actions = ["first", "second"]
"""
HEAVY = (
    ("POST", "/v1/tasks/reply/duels"),
    ("GET", "/v1/tasks/reply/votes"),
    ("GET", "/v1/tasks/route/tradeoff"),
    ("GET", "/v1/tasks/reply/replies"),
)
WRITING = {  # by path: what the busy key sends
    "/generate": {"prompt": "Hello"},
    "/v1/decisions": {"task": "route", "text": "Translate this page"},
    "/v1/decisions/batch": {"decisions": [{"task": "route", "text": f"Translate page {n}"} for n in range(20)]},
    "/v1/decisions/{decision}/signals": {"solved": 1.0},
}
_PAGE = 500
_SCOPES = ("decide", "signal", "train")


@dataclass(frozen=True, kw_only=True)
class Stall:
    """What the calm key saw while the busy one asked for a route; medians in ms."""

    route: str
    decide_alone_ms: float
    decide_ms: float
    decide_ratio: float
    reply_alone_ms: float
    reply_ms: float
    reply_ratio: float
    refused: int  # answers to the calm key that were not a success
    answers: dict[int, int]  # to the busy key, by status


def fill(folder: Path, replies: int) -> None:
    """The store: replies with ratings, comparisons with votes, and decisions with outcomes and a cost."""
    rng = random.Random(7)
    with headway.open(folder) as project:
        policy = publish_candidate(project, "reply")
        words = [f"word{number}" for number in range(3000)]
        for start in range(0, replies, _PAGE):
            texts = [" ".join(rng.choices(words, k=12)) for _ in range(min(_PAGE, replies - start))]
            _rated(project, texts, rng)
            _compared(project, policy, texts[: len(texts) // 10], rng)
            _routed(project, texts, rng)
        for task in ("reply", "route"):
            project.settle(task)


def _rated(project: Project, texts: list[str], rng: random.Random) -> None:
    rows = []
    for text in texts:
        reply = KeptReply(text="An answer. " * 20, turns=(Turn("user", text),), tokens=(1,) * 60)
        rows.append(project.consider("reply", text, None, key="other")._replace(details=to_details(reply)))
    stored = project.submit(rows).result()
    signals = [
        one
        for decision in stored
        for one in project.checked_signals(decision.id, {"stars": float(rng.randint(1, 5))}, rater="other")
    ]
    project.submit_signals(signals).result()


def _compared(project: Project, policy: str, texts: list[str], rng: random.Random) -> None:
    stored = project.submit([project.consider("reply", text, (policy, "base@0"), key="other") for text in texts])
    signals = [
        one
        for decision in stored.result()
        for one in project.checked_signals(decision.id, {"preferred": float(rng.randint(0, 1))}, rater="other")
    ]
    project.submit_signals(signals).result()


def _routed(project: Project, texts: list[str], rng: random.Random) -> None:
    stored = project.submit([project.consider("route", text, None, key="other") for text in texts]).result()
    signals = []
    for decision in stored:
        values = {"solved": float(rng.random() < 0.7), "cost_usd": rng.random() / 100}
        signals += project.checked_signals(decision.id, values, rater="other")
    project.submit_signals(signals).result()


def reading_routes(server: Target) -> list[tuple[str, str]]:
    """Every route that a key without `admin` may read, and those that write but read much first."""
    document = httpx.get(f"{server.url}/openapi.json", headers=server.token).json()
    gets = []
    for path, methods in document["paths"].items():
        if "get" in methods and methods["get"]["x-scope"] != "admin" and path not in ("/v1/events", "/open"):
            task = "reply" if path.endswith(("replies", "votes")) else "route"
            gets.append(("GET", path.replace("{task}", task)))
    return [*HEAVY, *(route for route in gets if "{" not in route[1] and route not in HEAVY)]


@contextmanager
def hammering(server: Target, secret: str, method: str, path: str, connections: int) -> Iterator[Counter[int]]:
    """Another process asks without a pause; the answers by status are known afterwards."""
    command = [sys.executable, "-m", "tests.attacks.stalls", "--hammer", server.url, secret, method, path]
    command += ["--connections", str(connections)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    answers: Counter[int] = Counter()
    try:
        yield answers
    finally:
        told, _ = process.communicate("stop\n", timeout=300)
        answers.update({int(status): count for status, count in json.loads(told).items()})


def hammer(url: str, secret: str, method: str, path: str, connections: int) -> None:
    """Ask over so many connections until a line arrives on stdin."""
    if os.sched_getscheduler(0) == os.SCHED_RR:  # `chrt --rr 2 python -m …`: a busy machine does not blur the times,
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # and these clients take nothing from server and calm
    ended, answers = threading.Event(), Counter[int]()

    def ask() -> None:
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=200) as client:
            body = WRITING.get(path, {}) if method == "POST" else None
            decision = client.post("/v1/decisions", json=WRITING["/v1/decisions"]).json()["id"] if "{" in path else ""
            while not ended.is_set():
                try:
                    asked = client.request(method, path.replace("{decision}", decision), json=body)
                    answers[asked.status_code] += 1
                except httpx.HTTPError:
                    answers[0] += 1

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    sys.stdin.readline()
    ended.set()
    until = time.monotonic() + 5
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    sys.stdout.write(json.dumps(answers))
    sys.stdout.flush()
    os._exit(0)  # answers that are still awaited are of no interest


class Calm:
    """The other key: it decides and asks for replies, one at a time."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def medians(self, seconds: float) -> tuple[float, float, int]:
        """Medians of a decision and of a reply in ms, and how many were refused."""
        times: dict[str, list[float]] = {"decide": [], "reply": []}
        refused, until = 0, time.monotonic() + seconds
        while time.monotonic() < until or min(map(len, times.values())) < 3:
            for name, path, body in (
                ("decide", "/v1/decisions", {"task": "route", "text": "Summarise this page"}),
                ("reply", "/generate", {"prompt": "Hello"}),
            ):
                began = time.perf_counter()
                status = self._client.post(path, json=body).status_code
                times[name].append((time.perf_counter() - began) * 1e3)
                refused += status not in (200, 201)
        return statistics.median(times["decide"]), statistics.median(times["reply"]), refused


def _until_calm(worker: Calm, alone: tuple[float, float, int]) -> None:
    """Waits until the server has answered what the last attack left behind."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        now = worker.medians(0.2)
        if now[0] < 1.5 * alone[0] and now[1] < 1.5 * alone[1]:
            return


def attack(
    *, replies: int, connections: int, seconds: float, routes: tuple[tuple[str, str], ...] | None = None
) -> Iterator[Stall]:
    with target(TOML, fill=lambda folder: fill(folder, replies)) as server, recording_worker(server.folder):
        with headway.open(server.folder) as project:
            keys = Keys(project.database)
            calm = keys.add("calm", _SCOPES, now=project.clock())
            busy = [keys.add(f"busy-{number}", _SCOPES, now=project.clock()) for number in range(100)]
        time.sleep(1.0)  # the server reads new keys five times a second
        headers = {"authorization": f"Bearer {calm}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=300) as client:
            worker = Calm(client)
            worker.medians(seconds / 2)  # warm
            alone = worker.medians(seconds)
            for secret, (method, path) in zip(busy, routes or reading_routes(server), strict=False):
                _until_calm(worker, alone)
                with hammering(server, secret, method, path, connections) as answers:
                    beside = worker.medians(seconds)
                yield Stall(
                    route=f"{method} {path}",
                    decide_alone_ms=round(alone[0], 2),
                    decide_ms=round(beside[0], 2),
                    decide_ratio=round(beside[0] / alone[0], 2),
                    reply_alone_ms=round(alone[1], 2),
                    reply_ms=round(beside[1], 2),
                    reply_ratio=round(beside[1] / alone[1], 2),
                    refused=alone[2] + beside[2],
                    answers=dict(answers),
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="One busy key beside a calm one.")
    parser.add_argument("--hammer", nargs=4)
    parser.add_argument("--replies", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--heavy", action="store_true", help="only the heaviest routes")
    parser.add_argument("--writing", action="store_true", help="only routes that store")
    given = parser.parse_args()
    if given.hammer:
        hammer(*given.hammer, given.connections)
        return
    writing = tuple(("POST", path) for path in WRITING)
    routes = HEAVY if given.heavy else writing if given.writing else None
    for stall in attack(replies=given.replies, connections=given.connections, seconds=given.seconds, routes=routes):
        sys.stdout.write(json.dumps(asdict(stall)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

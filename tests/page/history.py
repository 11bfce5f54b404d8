"""A project with twelve days of synthetic traffic, for the browser tests and the screenshots of the docs.

`route` was decided at random, then by a policy that was proven and promoted; a second candidate waits for its proof.
`reply` is rated with stars and thumbs. Times are relative to `now`, seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from headway.kits.demo.routing import two_arms
from headway.project import Project

__all__ = ["DAYS", "SETTINGS", "write_history"]

DAY = 86_400.0
DAYS = 12
SETTINGS = """\
[tasks.route]
actions = ["small", "large"]
ramp = "off"
reward = { solved = 1.0, cost_usd = -20.0 }
required = ["solved"]

[tasks.route.guards.latency_s]
tolerance = 0.5
range = [0, 60]

[tasks.reply]
actions = ["brief", "detailed"]
reward = { rating = "stars", liked = "thumbs" }
required = ["rating"]
"""
_DOLLARS = 0.05  # a cost of 1 in the sample world is 1/20 here


class _Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def write_history(folder: Path, *, now: float, per_day: int = 400) -> None:
    """Fill an empty folder with twelve days up to `now`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headway.toml").write_text(SETTINGS, "utf-8")
    clock = _Clock(now - DAYS * DAY)
    random = Random(7)
    with Project(folder, environ={}, clock=clock, seed=7, source="synthetic") as project:
        asks = iter(two_arms().sample(DAYS * per_day * 2, 7))
        for day in range(DAYS):
            many = int(per_day * (0.7 + 0.6 * random.random()))
            for part in range(0, many, 50):
                count = min(50, many - part)
                clock.now = now - (DAYS - day - (part + count) / many) * DAY * 0.999
                _route(project, [next(asks) for _ in range(count)], random)
            if day == 7:
                policy = project.learn("route", seed=7)
                project.promote(policy, because=project.prove(policy), who="ada")
        _reply(project, random)
        clock.now = now - 60
        project.prove(project.learn("route", seed=8))
        project.settle("reply")


def _route(project: Project, asks: list, random: Random) -> None:  # type: ignore[type-arg]
    made = [project.consider("route", ask.text, None, state=ask.state, role=ask.role) for ask in asks]
    project.submit(made).result()
    rows = []
    for ask, (decision, *_) in zip(asks, made, strict=True):
        cost = 0.02 if decision.action == "small" else 0.25
        solved = 1.0 if ask.outcome(decision.action) + cost > 0.5 else 0.0
        latency = random.gauss(1.1 if decision.action == "small" else 1.3, 0.2)
        signals = {"solved": solved, "cost_usd": cost * _DOLLARS, "latency_s": latency}
        rows += project.checked_signals(decision.id, signals)
    project.submit_signals(rows).result()


def _reply(project: Project, random: Random) -> None:
    texts = ["How do I export my data?", "The build fails on Windows.", "Which plan includes single sign-on?"]
    made = [project.consider("reply", random.choice(texts), None) for _ in range(60)]
    project.submit(made).result()
    rows = []
    for decision, *_ in made[:45]:
        good = 4 if decision.action == "brief" else 3
        rows += project.checked_signals(decision.id, {"rating": min(5, max(1, round(random.gauss(good, 1))))})
    project.submit_signals(rows).result()

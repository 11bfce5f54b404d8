"""Is a policy promoted that is not better, where requests are rescued by fallbacks, or results belong to episodes?

Every trial is a project. An experiment, a canary or plain exploration gives the candidate its share, and its proof is
looked at while requests or episodes come in. No candidate is truly better, except in the controls: a gate that never
passes would be right as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from _situations.client import Client

from headway.nouns import ids
from headway.nouns.errors import HeadwayError
from headway.nouns.records import Signal

__all__ = ["CONTROLS", "TRIALS", "Judged"]

_CANDIDATE = "fixed@0"  # always takes the task's fallback
_REQUESTS = """unit = "request"
actions = ["first", "other"]
range = [0, 1]
reward = { solved = 1.0 }
floor = 0.4
rules = [{ when = "text_length >= 0", use = "first" }]
fallback = "other"
"""
_EPISODES = """unit = "episode"
actions = ["a", "b"]
range = [0, 1]
reward = { solved = 1.0 }
floor = 0.2
rules = [{ when = "text_length >= 0", use = "a" }]
fallback = "b"
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """How a trial ended."""

    promoted: bool  # passed at any look
    word: str  # of the last look
    units: int = 0  # rows of the last evidence
    looks: int = 0
    mixed: int = 0  # episodes that two policies decided


def _look(client: Client, serve: Callable[[], None], *, looks: int) -> Judged:
    word, units = "", 0
    for look in range(1, looks + 1):
        serve()
        try:
            verdict = client.project.prove(_CANDIDATE, task=client.task)
        except HeadwayError as error:
            word = error.code
            continue
        word, units = verdict.word, 0 if verdict.evidence is None else verdict.evidence.n
        if verdict.passed or word == "worse":
            return Judged(verdict.passed, word, units, look)
    return Judged(False, word, units, looks)


# -- requests


def rescue(seed: int, other: float = 0.845) -> Judged:
    """`first` fails in .3 of the requests, and a fallback solves .95 of those: it is worth .915 to users.

    By attempts, `first` is worth .63, and `other` more than its .845.
    """
    with Client(_REQUESTS, seed=seed) as client:
        rng = np.random.default_rng([seed, 4])

        def serve() -> None:
            for _ in range(5):
                _rescued(client, rng, 50, other)

        return _look(client, serve, looks=8)


def _rescued(client: Client, rng: np.random.Generator, count: int, other: float) -> None:
    project, signals = client.project, list[Signal]()

    def say(decision: str, **values: float) -> None:
        now = client.clock.now + 5.0
        signals.extend(Signal(subject=decision, name=name, value=value, at=now) for name, value in values.items())

    details = [{"id": client.next_id(), "state": {"x": float(rng.random())}} for _ in range(count)]
    firsts = project.submit([project.consider(client.task, "", None, **one) for one in details]).result()
    failed = [one for one in firsts if one.action == "first" and rng.random() < 0.3]
    again = [
        project.consider(client.task, "", ["other"], id=client.next_id(), unit=one.id, position=1) for one in failed
    ]
    for one in failed:
        say(one.id, failed=1.0)
    for second in project.submit(again).result() if again else ():
        say(second.id, solved=float(rng.random() < 0.95))
    gone = {one.id for one in failed}
    for one in firsts:
        if one.id not in gone:
            say(one.id, solved=float(rng.random() < (0.9 if one.action == "first" else other)))
    client.clock.now += 60.0 * count
    project.submit_signals(signals).result()


# -- episodes


class _Episodes:
    """Episodes side by side, one step of each per round. `b` makes them longer, and every step with it is praised.

    The result belongs to the episode and comes with its end. It depends on nothing that is chosen, unless `helps`.
    """

    def __init__(self, client: Client, seed: int, helps: float) -> None:
        self._client, self._rng, self._helps = client, np.random.default_rng([seed, 5]), helps
        self._open: dict[str, list[str]] = {}  # the actions of its steps so far
        self._begun = 0
        self.authors: defaultdict[str, set[str]] = defaultdict(set)

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self._round()

    def _round(self) -> None:
        client, rng = self._client, self._rng
        project = client.project
        for _ in range(10):
            self._begun += 1
            self._open[f"e{self._begun}"] = []
        considered = [
            project.consider(client.task, "", None, id=client.next_id(), episode=name, state={"x": float(rng.random())})
            for name in self._open
        ]
        signals, now = [], client.clock.now  # `next_id` moves the clock
        for made in project.submit(considered).result():
            name = made.situation.episode
            assert name is not None
            self.authors[name].add(made.assigned)
            self._open[name].append(made.action)
            if made.action == "b":
                signals.append(Signal(subject=made.id, name="solved", value=1.0, at=now + 5.0))
            if rng.random() < (0.3 if made.action == "b" else 0.6):
                signals.append(self._end(name, now + 10.0))
        client.clock.now += 600.0
        project.submit_signals(signals).result()

    def _end(self, name: str, at: float) -> Signal:
        chosen = self._open.pop(name)
        chance = 0.5 + self._helps * chosen.count("b") / len(chosen)
        solved = float(self._rng.random() < chance)
        return Signal(subject=ids.episode(self._client.task, name), name="solved", value=solved, at=at)


def episodes(seed: int, *, share: float | None = None, helps: float = 0.0) -> Judged:
    """An experiment on the cheapest share, or a canary on this one."""
    with Client(_EPISODES, seed=seed) as client:
        traffic = _Episodes(client, seed, helps)
        traffic.rounds(10)
        if share is None:
            client.project.start_experiment(client.task, policy=_CANDIDATE)
        else:
            client.project.canary(_CANDIDATE, share=share, task=client.task)
        judged = _look(client, lambda: traffic.rounds(10), looks=8)
        mixed = sum(len(authors - {""}) > 1 for authors in traffic.authors.values())
        return Judged(judged.promoted, judged.word, judged.units, judged.looks, mixed)


TRIALS: dict[str, Callable[[int], Judged]] = {
    "rescue": rescue,
    "experiment by episode": episodes,
    "canary by episode": partial(episodes, share=0.2),
}
CONTROLS: dict[str, Callable[[int], Judged]] = {
    "rescue": partial(rescue, other=0.99),
    "experiment by episode": partial(episodes, helps=0.35),
    "canary by episode": partial(episodes, share=0.2, helps=0.4),
}

"""Clients that log probabilities which are false in ways that no log can show, and the cure: Headway draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import UNIT, context
from _situations.trial import Ending, learn, look

EASY, HARD = 0.8, 0.2  # what a case earns, whatever the action
USERS = 16

World = Callable[[int, float], tuple[Visits, Callable[[Visit], str], tuple[float, float]]]


def _equal(rng: np.random.Generator, worth: float, gain: float) -> Visit:
    """Both actions earn the same; `gain` is what `b` adds."""
    both = {"a": worth, "b": min(1.0, worth + gain)}
    lucky = rng.random()
    return Visit(both, lambda action: [Report({"reward": float(lucky < both[action])})], details=context(rng))


def hard_cases(seed: int, gain: float) -> tuple[Visits, Callable[[Visit], str], tuple[float, float]]:
    """The client takes `b` in easy cases and tries `a` in half of the hard ones only; it logs the true average."""
    rng = np.random.default_rng([seed, 5])
    return (
        lambda visits, _: _equal(visits, EASY if visits.random() < 0.5 else HARD, gain),
        lambda visit: "b" if visit.worth["a"] == EASY or rng.random() < 0.5 else "a",
        (0.25, 0.75),
    )


def hidden_context(seed: int, gain: float) -> tuple[Visits, Callable[[Visit], str], tuple[float, float]]:
    """The client takes `b` in 85% of the easy cases and 15% of the hard ones, and logs one half."""
    rng = np.random.default_rng([seed, 5])
    return (
        lambda visits, _: _equal(visits, EASY if visits.random() < 0.5 else HARD, gain),
        lambda visit: "b" if rng.random() < (0.85 if visit.worth["a"] == EASY else 0.15) else "a",
        (0.5, 0.5),
    )


def user_hash(seed: int, gain: float) -> tuple[Visits, Callable[[Visit], str], tuple[float, float]]:
    """Half of sixteen users always get `b`; the log does not say who asked, and users differ."""
    levels = np.random.default_rng([seed, 4]).uniform(0.1, 0.8, USERS)
    arms = {float(level): "ab"[user % 2] for user, level in enumerate(levels)}
    return (
        lambda visits, _: _equal(visits, float(levels[visits.integers(USERS)]), gain),
        lambda visit: arms[visit.worth["a"]],
        (0.5, 0.5),
    )


def claimed(world: World, seed: int) -> Ending:
    """The client decides and logs all the time; nobody says that its probabilities are to be believed."""
    return _played(world, seed, gain=0.0, drawn=False)


def drawn(world: World, seed: int, gain: float = 0.0) -> Ending:
    """The same client; after 500 decisions Headway decides, in an experiment."""
    return _played(world, seed, gain=gain, drawn=True)


def _played(world: World, seed: int, *, gain: float, drawn: bool) -> Ending:
    ending = Ending()
    visits, choose, chances = world(seed, gain)
    with Client(UNIT, seed=seed) as client:
        client.record(visits, 500, lambda visit: (choose(visit), chances))
        candidate = learn(client, ending)
        if drawn and candidate is not None:
            client.project.start_experiment(client.task, policy=candidate)
        while client.made < (4000 if gain else 2500):
            if drawn:
                client.serve(visits, 100)
            else:
                client.record(visits, 100, lambda visit: (choose(visit), chances))
            if look(client, candidate, ending, visits):
                break
    return ending

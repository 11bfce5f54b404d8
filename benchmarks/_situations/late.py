"""Outcomes that come late, never, or for some results only."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.trial import Ending, follow

HOUR = 3600.0
UNIT = 'actions = ["a", "b"]\nrange = [0, 1]\non_failure = 0.0\n'


def context(rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Two numbers that say nothing about the outcome."""
    return {"state": {"x": float(rng.random()), "y": float(rng.random())}}


def failing(a: float, b: float, delay_s: float | None) -> Visits:
    """Successes are reported at once; failures of `b` after a delay, or never."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": rng.random() < a, "b": rng.random() < b}

        def report(action: str) -> Iterable[Report]:
            if won[action]:
                yield Report({"reward": 1.0})
            elif action == "a":
                yield Report({"failed": 1.0})
            elif delay_s is not None:
                yield Report({"failed": 1.0}, delay_s)

        return Visit({"a": a, "b": b}, report, details=context(rng))

    return visit


def late_failures(seed: int) -> Ending:
    """`b` is .05 worse, and its failures take six hours: 1,500 decisions in half a day."""
    with Client(UNIT, seed=seed, step_s=30.0) as client:
        return follow(client, failing(0.75, 0.7, 6 * HOUR), until=1500)


def late_failures_waited_for(seed: int) -> Ending:
    """`b` is better, its failures take six hours, and the traffic lasts four days."""
    with Client(UNIT, seed=seed, step_s=180.0) as client:
        return follow(client, failing(0.5, 0.75, 6 * HOUR), until=2000)


def silent_failures(seed: int) -> Ending:
    """Nobody reports the failures of `b`, and the day that an outcome may take is not over."""
    with Client(UNIT, seed=seed, step_s=30.0) as client:
        return follow(client, failing(0.75, 0.7, None), until=1500)


def silent_failures_past_the_day(seed: int) -> Ending:
    """The same over four days: the silent ones become missing outcomes."""
    with Client(UNIT, seed=seed, step_s=240.0) as client:
        return follow(client, failing(0.75, 0.7, None), until=1500)


def silent_failures_declared(seed: int) -> Ending:
    """`b` is better, silence is declared to be worth 0 after an hour, and the traffic lasts a day and a half."""
    settings = f"{UNIT}on_censored = 0.0\nreward_after_s = 3600\n"
    with Client(settings, seed=seed, step_s=60.0) as client:
        return follow(client, failing(0.5, 0.75, None), until=2000)


def selected(a: float, b: float, lost: dict[str, tuple[float, float]]) -> Visits:
    """Outcomes come at once, or never: `lost` is the chance of that by action, after a failure and after a success."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": rng.random() < a, "b": rng.random() < b}
        chance = rng.random()

        def report(action: str) -> Iterable[Report]:
            if chance >= lost[action][won[action]]:
                yield Report({"reward": float(won[action])})

        return Visit({"a": a, "b": b}, report, details=context(rng))

    return visit


HOURLY = f"{UNIT}reward_after_s = 3600\n"


def missing_not_at_random(seed: int) -> Ending:
    """40% of the outcomes of both actions are missing: successes of `a`, failures of `b`. `b` is .2 worse."""
    lost = {"a": (0.0, 0.4 / 0.7), "b": (0.4 / 0.5, 0.0)}
    with Client(HOURLY, seed=seed) as client:
        return follow(client, selected(0.7, 0.5, lost))


def missing_at_random_declared(seed: int) -> Ending:
    """30% are missing whatever happened, the task says so, and `b` is better."""
    settings = f'{HOURLY}missing = "at random"\n'
    with Client(settings, seed=seed) as client:
        return follow(client, selected(0.5, 0.75, {"a": (0.3, 0.3), "b": (0.3, 0.3)}))


def few_missing(seed: int) -> Ending:
    """0.5% are missing, nothing is declared, and `b` is better."""
    with Client(HOURLY, seed=seed) as client:
        return follow(client, selected(0.5, 0.75, {"a": (0.005, 0.005), "b": (0.005, 0.005)}))


def left_open(seed: int) -> Ending:
    """An agent that may only decide abandons what speaks against `b`: 52% stay open, and `b` is .3 worse."""
    lost = {"a": (0.0, 0.8), "b": (0.8, 0.0)}
    with Client(UNIT, seed=seed, step_s=120.0) as client:
        return follow(client, selected(0.8, 0.5, lost), until=1800)

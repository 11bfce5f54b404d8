"""Rewards that are rare, almost certain, disastrous or cut off, and a guard that is broken quietly."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from _situations.budget import equal, one_better
from _situations.client import Client, Report, Visit, Visits
from _situations.late import context
from _situations.trial import Ending, follow

ARMS = ("a", "b")
RULES = 'rules = [{ when = "x >= 0", use = "a" }]\nstate = ["x", "y"]\nfallback = "b"\n'
EPSILON = f'actions = {list(ARMS)}\n{RULES}explore = {{ kind = "epsilon", value = 0.1 }}\nfloor = 0.0\n'
UNIT = f"{EPSILON}range = [0, 1]\n"


def tried(seed: int, settings: str, visits: Visits) -> Ending:
    """A rule always chooses `a`, but for one decision in ten; the candidate always chooses `b`."""
    with Client(settings, seed=seed) as client:
        return follow(client, visits, learn_at=1000, until=5000, every=1000, candidate="fixed@0")


def success_97(seed: int) -> Ending:
    """97% of everything succeeds."""
    return tried(seed, UNIT, equal(0.97))


def success_and_better(seed: int) -> Ending:
    """`b` succeeds in 97%, `a` in 60%."""
    return tried(seed, UNIT, one_better(0.97, 0.6))


def clicks_3(seed: int) -> Ending:
    """3% of everything is clicked."""
    return tried(seed, UNIT, equal(0.03))


def clicks_and_better(seed: int) -> Ending:
    """`b` is clicked in 20%."""
    return tried(seed, UNIT, one_better(0.2, 0.03))


def disasters_1(seed: int) -> Ending:
    """`a` always earns .5; `b` .5152, but for one time in a hundred, when it costs 1. Both are worth .5."""
    return tried(seed, f"{EPSILON}range = [-1, 1]\n", disastrous(0.01, 0.5))


def disasters_and_better(seed: int) -> Ending:
    """The same, but without the disaster `b` would earn .9: it is worth .38 more."""
    return tried(seed, f"{EPSILON}range = [-1, 1]\n", disastrous(0.01, 0.88))


def disastrous(chance: float, value: float) -> Visits:
    """`a` earns .5; `b` is worth `value`, but looks better as long as the disaster has not happened."""
    usual = (value + chance) / (1.0 - chance)

    def visit(rng: np.random.Generator, _: int) -> Visit:
        bad = rng.random() < chance

        def report(action: str) -> Iterable[Report]:
            yield Report({"reward": 0.5 if action == "a" else -1.0 if bad else usual})

        return Visit({"a": 0.5, "b": value}, report, details=context(rng))

    return visit


def clipped(seed: int, settings: str = 'actions = ["a", "b"]\n') -> Ending:
    """`a` earns 3 or −1, 1 on average; `b` always .3. Cut to the range [−1, 1], `a` earns 0 on average."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = rng.random() < 0.5
        reward = {"a": 3.0 if won else -1.0, "b": 0.3}
        return Visit({"a": 1.0, "b": 0.3}, lambda action: [Report({"reward": reward[action]})], details=context(rng))

    with Client(settings, seed=seed) as client:
        return follow(client, visit)


def range_that_fits(seed: int) -> Ending:
    """The same world with range = [−1, 3]: `a` is better, and found better."""
    return clipped(seed, 'actions = ["a", "b"]\nrange = [-1, 3]\n')


def guarded(extra: float) -> Visits:
    """`b` earns .25 more; it is slower by `extra` seconds on average."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": float(rng.random() < 0.5), "b": float(rng.random() < 0.75)}
        slow = {"a": rng.exponential(1.0), "b": rng.exponential(1.0) + extra}

        def report(action: str) -> Iterable[Report]:
            yield Report({"reward": won[action], "latency_s": slow[action]})

        # a policy that breaks the guard must not be promoted, whatever it earns
        worth = {"a": 0.5, "b": 0.75 if extra <= 0.1 else 0.0}
        return Visit(worth, report, details=context(rng))

    return visit


GUARD = 'actions = ["a", "b"]\nrange = [0, 1]\nguards = { latency_s = { tolerance = 0.05, range = [0, 20] } }\n'


def guard_broken(seed: int) -> Ending:
    """`b` earns more but breaks its guard by three tolerances: .15 s slower as a policy, .05 s allowed."""
    with Client(GUARD, seed=seed) as client:
        return follow(client, guarded(0.15 / 0.45), until=1500)


def guard_kept(seed: int) -> Ending:
    """`b` earns more and is as fast."""
    settings = GUARD.replace("0.05", "0.3")
    with Client(settings, seed=seed) as client:
        return follow(client, guarded(0.0), until=2500)

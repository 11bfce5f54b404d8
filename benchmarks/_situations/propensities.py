"""Clients that log probabilities which they did not act with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import UNIT, context
from _situations.trial import Ending, learn, look

Choose = Callable[[Visit], tuple[str, Sequence[float]]]


def uneven(gain: float = 0.0) -> Visits:
    """Easy decisions (x above one half) earn .7, hard ones .2, whatever the action; `gain` is what `b` adds."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        details = context(rng)
        base = 0.7 if details["state"]["x"] > 0.5 else 0.2
        worth = {"a": base, "b": base + gain}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        return Visit(worth, lambda action: [Report({"reward": won[action]})], details=details)

    return visit


def recorded(seed: int, visits: Visits, choose: Callable[[np.random.Generator], Choose], until: int = 2000) -> Ending:
    """The client decides and logs; Headway learns from that and proves, and whoever promotes believes the client."""
    ending = Ending()
    with Client(UNIT, seed=seed) as client:
        chooser = choose(np.random.default_rng([seed, 3]))
        client.record(visits, 500, chooser)
        candidate = learn(client, ending)
        while client.made < until:
            client.record(visits, 100, chooser)
            if candidate is None:
                candidate = learn(client, ending)
            elif look(client, candidate, ending, visits, trust_claims=True):
                break
    return ending


def _by_context(rng: np.random.Generator) -> Choose:
    def choose(visit: Visit) -> tuple[str, Sequence[float]]:
        chance = 0.85 if visit.details["state"]["x"] > 0.5 else 0.15
        return ("b" if rng.random() < chance else "a"), (0.5, 0.5)

    return choose


def by_context(seed: int) -> Ending:
    """The client sends easy cases to `b` most of the time and logs one half."""
    return recorded(seed, uneven(), _by_context)


def _by_user(_: np.random.Generator) -> Choose:
    return lambda visit: ("ab"[int(visit.details["state"]["user"]) % 2], (0.5, 0.5))


def by_user(seed: int) -> Ending:
    """Half of sixteen users always get `b`; the client logs one half. Users differ in luck."""
    levels = np.random.default_rng([seed, 4]).uniform(0.2, 0.8, 16)

    def visit(rng: np.random.Generator, _: int) -> Visit:
        user = int(rng.integers(16))
        value = float(levels[user])
        won = float(rng.random() < value)
        state = {**context(rng)["state"], "user": user}
        return Visit({"a": value, "b": value}, lambda _: [Report({"reward": won})], details={"state": state})

    return recorded(seed, visit, _by_user)


def _greedy(_: np.random.Generator) -> Choose:
    def choose(visit: Visit) -> tuple[str, Sequence[float]]:
        if visit.details["state"]["x"] > 0.5:
            return "b", (0.1, 0.9)
        return "a", (0.9, 0.1)

    return choose


def greedy_logged_as_epsilon(seed: int) -> Ending:
    """The client never explores, but logs as if one decision in five were random."""
    return recorded(seed, uneven(), _greedy)


def _even(rng: np.random.Generator) -> Choose:
    return lambda _: ("b" if rng.random() < 0.5 else "a", (0.5, 0.5))


def right_and_better(seed: int) -> Ending:
    """The client logs what it did, and `b` is better."""
    return recorded(seed, uneven(0.2), _even)


def _learning(rng: np.random.Generator) -> Choose:
    sums, counts = np.ones(2), np.full(2, 2.0)

    def choose(visit: Visit) -> tuple[str, Sequence[float]]:
        means = sums / counts
        chances = 0.8 * np.exp(means * 8) / np.exp(means * 8).sum() + 0.1
        place = int(rng.random() < chances[1])
        (report,) = visit.report("ab"[place])
        sums[place] += report.signals["reward"]
        counts[place] += 1
        return "ab"[place], chances.tolist()

    return choose


def adaptive(seed: int) -> Ending:
    """The client's own policy learns from every result and logs its true, changing probabilities."""
    return recorded(seed, uneven(), _learning)


def adaptive_and_better(seed: int) -> Ending:
    """The same, and `b` is better."""
    return recorded(seed, uneven(0.2), _learning)

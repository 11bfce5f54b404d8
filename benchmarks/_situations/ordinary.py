"""What held before and must go on to hold: seasons, episodes, users, changing actions and canaries, early signals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from _situations.client import Client, Report, Visit
from _situations.late import UNIT, context
from _situations.trial import Ending, follow, learn, look

THREE = 'actions = ["a", "b", "c"]\nrange = [0, 1]\n'


def of(worth: dict[str, float], rng: np.random.Generator, **more: object) -> Visit:
    """A visit with results of these chances."""
    won = {arm: float(rng.random() < value) for arm, value in worth.items()}
    return Visit(worth, lambda action: [Report({"reward": won[action]})], **{"details": context(rng), **more})  # type: ignore[arg-type]


def season(seed: int, gain: float = 0.0) -> Ending:
    """All actions get better and worse together over the day and the week."""

    def visit(rng: np.random.Generator, place: int) -> Visit:
        base = 0.4 + 0.2 * np.sin(place / 230) + 0.1 * np.sin(place / 37)
        return of({"a": base, "b": base + gain}, rng)

    with Client(UNIT, seed=seed) as client:
        return follow(client, visit)


def sticky(seed: int, gain: float = 0.0) -> Ending:
    """Conversations of four turns keep their action; every turn is rated, and easy conversations stay easy."""
    base = 0.5

    def visit(rng: np.random.Generator, place: int) -> Visit:
        nonlocal base
        if place % 4 == 0:
            base = float(rng.choice([0.15, 0.65]))
        worth = {"a": base, "b": base + gain}
        details = {**context(rng), "episode": f"{seed}-{place // 4}"}
        return of(worth, rng, details=details)

    with Client(f"{UNIT}sticky = true\n", seed=seed) as client:
        return follow(client, visit, learn_at=800, until=2400, every=200, one_by_one=True)


MARGIN = 0.02


def agreeing(seed: int, gain: float = 0.34) -> Ending:
    """`b` is better on one decision in ten, by just less than the margin per decision, and far worse elsewhere.

    A policy that learns it agrees with the rules on 90% of the decisions. What counts is the uplift above the
    margin.
    """

    def visit(rng: np.random.Generator, _: int) -> Visit:
        hard = rng.random() < 0.1
        worth = {"a": 0.05, "b": 0.05 + gain} if hard else {"a": 0.5, "b": 0.05}
        details = context(rng)
        return of(worth, rng, details={**details, "state": {**details["state"], "hard": float(hard)}})

    rules = 'rules = [{ when = "text_length >= 0", use = "a" }]\nexplore = { kind = "epsilon", value = 0.5 }\n'
    with Client(f"{UNIT}margin = {MARGIN}\n{rules}", seed=seed) as client:
        ending = follow(client, visit, learn_at=800, until=4000, every=200, candidate=None)
    return replace(ending, uplift=ending.uplift - MARGIN)


agreeing_and_better = partial(agreeing, gain=0.95)


def users(seed: int, gain: float = 0.0) -> Ending:
    """Thirty users with very different luck, the busiest with a fifth of the traffic."""
    levels = np.random.default_rng([seed, 5]).uniform(0.1, 0.8, 30)
    shares = 1.0 / np.arange(1, 31)
    shares /= shares.sum()

    def visit(rng: np.random.Generator, _: int) -> Visit:
        user = int(rng.choice(30, p=shares))
        base = float(levels[user])
        return of({"a": base, "b": base + gain}, rng, details={**context(rng), "role": f"user-{user}"})

    with Client(UNIT, seed=seed) as client:
        return follow(client, visit)


def changing(seed: int, gain: float = 0.0) -> Ending:
    """`c` comes after 700 decisions and `a` is absent at times; canaries of the newest candidate come and go."""

    def visit(rng: np.random.Generator, place: int) -> Visit:
        arms = ["a", "b", "c"] if place > 700 else ["a", "b"]
        if rng.random() < 0.2:
            arms.remove("a")
        worth = {arm: 0.5 + gain * (arm == "b") for arm in arms}
        return of(worth, rng, candidates=arms)

    ending = Ending()
    with Client(THREE, seed=seed) as client:
        client.serve(visit, 400)
        candidate = learn(client, ending)
        while client.made < 2000:
            if client.made % 300 == 100:
                newest = learn(client, Ending())
                client.project.canary(newest, share=float(client.rng.choice([0.1, 0.3, 0.5])), task=client.task)
            client.serve(visit, 100)
            if look(client, candidate, ending, visit):
                break
    return ending


def early_and_withdrawn(seed: int, gain: float = 0.0) -> Ending:
    """Signals come before the decision is stored, or late; one in ten is withdrawn and given again by another."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        worth = {"a": 0.5, "b": 0.5 + gain}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        delay = float(rng.choice([0.0, 600.0, 7200.0]))
        early = rng.random() < 0.1
        back = 10_000.0 if rng.random() < 0.1 else None

        def report(action: str) -> list[Report]:
            if early:
                return [Report({"reward": won[action]}, early=True)]
            reports = [Report({"reward": won[action]}, delay, withdraw_after_s=back)]
            if back is not None:
                reports.append(Report({"reward": won[action]}, delay + 15_000.0, rater="ann"))
            return reports

        return Visit(worth, report, details=context(rng))

    with Client(UNIT, seed=seed, step_s=120.0) as client:
        return follow(client, visit)


season_and_better = partial(season, gain=0.25)
sticky_and_better = partial(sticky, gain=0.3)
users_and_better = partial(users, gain=0.2)
changing_and_better = partial(changing, gain=0.3)
early_and_better = partial(early_and_withdrawn, gain=0.25)

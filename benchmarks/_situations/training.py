"""What a candidate was trained on must never speak for it, whatever happens to those decisions later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.trial import Ending, guard, learn, look

ARMS = ("a", "b", "c", "d", "e")
SETTINGS = f"actions = {list(ARMS)}\nrange = [0, 1]\non_failure = 0.0\n"
PLACES = 32
BY_HEART: dict[str, Any] = {"model": "linear", "ridge": 0.3}  # a learner that remembers noise


def noise(signals: Callable[[float], Iterable[Report]]) -> Visits:
    """Every action is worth .5 everywhere; `signals` says how a result is reported."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {arm: 0.9 if rng.random() < 0.5 else 0.1 for arm in ARMS}
        state = {"place": f"p{rng.integers(PLACES)}", "x": float(rng.random())}
        return Visit(dict.fromkeys(ARMS, 0.5), lambda action: signals(won[action]), details={"state": state})

    return visit


def plain(won: float) -> Iterable[Report]:
    yield Report({"reward": won})


def after(seed: int, settings: str, visits: Visits, change: Callable[[Client], None]) -> Ending:
    """Learn from 500 decisions, let `change` touch the old ones, and look as more come in."""
    ending = Ending()
    with Client(settings, seed=seed) as client:
        client.serve(visits, 500)
        candidate = learn(client, ending, **BY_HEART)
        change(client)
        while client.made < 1300:
            if look(client, candidate, ending, visits):
                break
            client.serve(visits, 100)
    return ending


def rescored(seed: int) -> Ending:
    """The weight of the reward changes a little after training, and all history is scored again."""

    def change(client: Client) -> None:
        client.reopen(client.settings.replace("solved = 1.0", "solved = 0.99"))
        client.project.rescore(client.task)

    def solved(won: float) -> Iterable[Report]:
        yield Report({"solved": won})

    return after(seed, f"{SETTINGS}reward = {{ solved = 1.0 }}\n", noise(solved), change)


def rated_again(seed: int) -> Ending:
    """A second person rates the decisions a day later, after training, and agrees roughly."""
    return after(seed, SETTINGS, noise(_twice), lambda client: client.wait(86_400))


def _twice(won: float) -> Iterable[Report]:
    yield Report({"reward": won})
    yield Report({"reward": 0.02 + 0.95 * won}, 80_000.0, rater="ann")


def completed(seed: int) -> Ending:
    """An optional signal, the cost, arrives a day later."""

    def reports(won: float) -> Iterable[Report]:
        yield Report({"solved": won})
        yield Report({"cost": 1.0}, 80_000.0)

    settings = f'{SETTINGS}reward = {{ solved = 1.0, cost = -0.01 }}\nrequired = ["solved"]\n'
    return after(seed, settings, noise(reports), lambda client: client.wait(86_400))


def withdrawn_and_rated(seed: int) -> Ending:
    """Ratings are withdrawn after training and given again."""

    def reports(won: float) -> Iterable[Report]:
        yield Report({"reward": won}, withdraw_after_s=60_000.0)
        yield Report({"reward": won}, 80_000.0, rater="ann")

    def change(client: Client) -> None:
        client.wait(70_000)
        client.project.settle(client.task)
        client.wait(20_000)

    return after(seed, SETTINGS, noise(reports), change)


def rescored_and_better(seed: int) -> Ending:
    """A better candidate after rescoring: new decisions speak for it."""

    def solved(won: float) -> Iterable[Report]:
        yield Report({"solved": won})

    def change(client: Client) -> None:
        client.reopen(client.settings.replace("solved = 1.0", "solved = 0.99"))
        client.project.rescore(client.task)

    return after(seed, f"{SETTINGS}reward = {{ solved = 1.0 }}\n", better(solved), change)


def better(signals: Callable[[float], Iterable[Report]]) -> Visits:
    """Every place has an action that is worth .9; the others are worth .4."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        place = int(rng.integers(4))
        worth = {arm: 0.9 if index == place else 0.4 for index, arm in enumerate(ARMS)}
        won = {arm: 0.9 if rng.random() < value else 0.1 for arm, value in worth.items()}
        state = {"place": f"p{place}", "x": float(rng.random())}
        return Visit(worth, lambda action: signals(won[action]), details={"state": state})

    return visit


def live_current(seed: int, visits: Visits | None = None) -> Ending:
    """The current policy learns from every row; a random choice is exactly as good, and must not be called worse."""
    visits = visits or noise(plain)
    ending = Ending()
    settings = f'{SETTINGS}online = "live"\ngate = "off"\nexplore = {{ kind = "epsilon", value = 0.3 }}\n'
    with Client(settings, seed=seed) as client:
        client.serve(visits, 400)
        client.project.promote(learn(client, ending, **BY_HEART), task=client.task)
        client.reopen(client.settings.replace('gate = "off"', 'gate = "on"'))
        while client.made < 1200:
            client.serve(visits, 100)
            client.project.fold(client.task)
            if look(client, "uniform@0", ending, visits):
                break
    return ending


def rolled_back(seed: int, online: str = "frozen") -> Ending:
    """A current policy that is exactly as good as random choice; the guard looks after every 100 decisions."""
    visits, ending = noise(plain), Ending()
    settings = f'{SETTINGS}online = "{online}"\ngate = "off"\nexplore = {{ kind = "epsilon", value = 0.3 }}\n'
    with Client(settings, seed=seed) as client:
        client.serve(visits, 400)
        client.project.promote(learn(client, ending, **BY_HEART), task=client.task)
        while client.made < 1600:
            client.serve(visits, 100)
            if online == "live":
                client.project.fold(client.task)
            if guard(client, ending, 0.0):
                break
    return ending


live_rolled_back = partial(rolled_back, online="live")

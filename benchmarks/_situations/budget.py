"""Many looks, plans and candidates: together they may promote a useless policy in at most 5% of the projects."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import UNIT, context
from _situations.trial import Ending, follow, learn, look, settle_it
from headway.nouns.errors import HeadwayError

ARMS = ("a", "b", "c", "d", "e", "f")
SIX = f"actions = {list(ARMS)}\nrange = [0, 1]\non_failure = 0.0\n"


def equal(value: float = 0.5, arms: tuple[str, ...] = ("a", "b")) -> Visits:
    """Every action is worth the same."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {arm: float(rng.random() < value) for arm in arms}
        return Visit(dict.fromkeys(arms, value), lambda action: [Report({"reward": won[action]})], details=context(rng))

    return visit


def one_better(best: float, others: float, arms: tuple[str, ...] = ("a", "b")) -> Visits:
    """The last action is better than the others."""
    worth = {arm: best if arm == arms[-1] else others for arm in arms}

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}

        def report(action: str) -> Iterable[Report]:
            yield Report({"reward": won[action]})

        return Visit(worth, report, details=context(rng))

    return visit


def peeking(seed: int) -> Ending:
    """Two actions alike, chosen at random; a look after every 50 decisions."""
    with Client(UNIT, seed=seed) as client:
        return follow(client, equal(), every=50)


def peeking_and_better(seed: int) -> Ending:
    """One action is .2 better."""
    with Client(UNIT, seed=seed) as client:
        return follow(client, one_better(0.7, 0.5), every=50)


def registered_again(seed: int, visits: Visits | None = None) -> Ending:
    """A short plan is registered, and a new one whenever it is used up."""
    visits = visits or equal()
    ending = Ending()
    with Client(UNIT, seed=seed) as client:
        client.serve(visits, 400)
        candidate = learn(client, ending)
        _register(client)
        while client.made < 3000:
            client.serve(visits, 100)
            if look(client, candidate, ending, visits):
                break
            if "used up" in ending.said:
                _register(client)
    return ending


def _register(client: Client) -> None:
    with suppress(HeadwayError):  # no plan may be made: the next look says why
        client.project.plan(client.task, uplift=0.15, register=True)


def registered_and_better(seed: int) -> Ending:
    """The same plan, once, and the candidate is as good as planned."""
    return registered_again(seed, one_better(0.8, 0.5))


def built_ins(seed: int, visits: Visits | None = None) -> Ending:
    """After every 400 decisions somebody tries each of six fixed actions, and would take any that passes."""
    visits = visits or equal(arms=ARMS)
    ending = Ending()
    with Client(SIX, seed=seed) as client:
        while client.made < 2000:
            client.serve(visits, 400)
            for arm in ARMS:
                client.reopen(f'{SIX}fallback = "{arm}"\n')
                if look(client, "fixed@0", ending, visits):
                    if ending.promoted:
                        return ending
                    ending.worse = False  # one of six; the others are tried all the same
        return ending


def built_in_and_better(seed: int) -> Ending:
    """One of the six is better by .3."""
    return built_ins(seed, one_better(0.8, 0.5, ARMS))


def two_levels() -> Visits:
    """`a` and `b` are worth .3, the other four .8: candidates that differ among these are equally good."""
    worth = {arm: 0.3 if arm in "ab" else 0.8 for arm in ARMS}

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        return Visit(worth, lambda action: [Report({"reward": won[action]})], details=context(rng))

    return visit


def proven_again(seed: int) -> Ending:
    """A good policy is rolled back and promoted again, each time followed by a new candidate that is no better."""
    visits = two_levels()
    ending = Ending()
    with Client(f'{SIX}explore = {{ kind = "epsilon", value = 0.6 }}\n', seed=seed) as client:
        client.serve(visits, 400)
        good = learn(client, ending)
        client.serve(visits, 400)
        for turn in range(6):
            if not _promote(client, good, visits):
                ending.state, ending.reason = "none", "the good policy did not pass"
                return ending
            client.serve(visits, 150)
            rival = client.project.learn(client.task, seed=turn + 1, ridge=float(3**turn))
            if _tried(client, rival, good, visits, ending):
                return ending
            client.project.rollback(client.task, to="uniform@0", why="to try once more")
    return ending


def _promote(client: Client, good: str | None, visits: Visits) -> bool:
    for _ in range(10):
        try:
            verdict = client.project.prove(good, task=client.task)
            client.project.promote(good, because=verdict, task=client.task)
        except HeadwayError:
            client.serve(visits, 100)
        else:
            return True
    return False


def _tried(client: Client, rival: str, good: str | None, visits: Visits, ending: Ending) -> bool:
    if rival == good:
        return False
    ending.looks += 1
    ending.decisions = client.made
    try:
        verdict = client.project.prove(rival, task=client.task)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", error.code, error.message
        return False
    if verdict.evidence is not None:  # what all rivals together may spend
        ending.notes["alpha"] = ending.notes.get("alpha", 0.0) + verdict.evidence.alpha
    settle_it(client, rival, verdict, ending, visits)
    ending.worse = False
    return ending.promoted

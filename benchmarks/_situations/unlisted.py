"""Worlds that nobody asked for: what else might fool the gate. Some of them it cannot see, and the table says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from _power.loop import UNIFORM, LoopRun
from _power.world import World

from _situations.client import Client, Report, Visit
from _situations.late import UNIT, context
from _situations.propensities import Choose, recorded
from _situations.raters import HONEST, SETTINGS, chooses_a, words
from _situations.trial import Ending, follow, learn, look

DAY = 86_400.0


def _bernoulli(worth: dict[str, float], rng: np.random.Generator, **details: object) -> Visit:
    won = {arm: float(rng.random() < value) for arm, value in worth.items()}
    return Visit(worth, lambda action: [Report({"reward": won[action]})], details=details or context(rng))


def _equal(rng: np.random.Generator, _: int) -> Visit:
    return _bernoulli({"a": 0.6, "b": 0.6}, rng)


def fished(seed: int) -> Ending:
    """Equal actions; a new candidate with other knobs after every 150 decisions, each looked at three times."""
    ending = Ending()
    with Client(UNIT, seed=seed) as client:
        client.serve(_equal, 400)
        while client.made < 2200:
            candidate = learn(client, ending, seed=client.made)
            for _ in range(3):
                client.serve(_equal, 50)
                if look(client, candidate, ending, _equal):
                    return ending
    return ending


def _two_scores(rng: np.random.Generator, _: int) -> Visit:
    scores = {name: float(rng.random()) for name in ("clear", "short")}
    return Visit({"a": 0.5, "b": 0.5}, lambda _: [Report(scores)], details=context(rng))


def rewards_tried(seed: int) -> Ending:
    """Equal actions; the weights of two scores are changed until something passes."""
    ending = Ending()

    def settings(weight: float) -> str:
        terms = f"clear = {{ weight = {weight:.2f} }}, short = {{ weight = {1 - weight:.2f} }}"
        return f'{UNIT}reward = {{ {terms} }}\nrequired = ["clear", "short"]\n'

    with Client(settings(0.5), seed=seed) as client:
        client.serve(_two_scores, 400)
        for weight in (0.5, 0.2, 0.8, 0.0, 1.0, 0.4):
            client.reopen(settings(weight))
            client.project.rescore(client.task)
            candidate = learn(client, ending)
            for _ in range(3):
                client.serve(_two_scores, 100)
                if look(client, candidate, ending, _two_scores):
                    return ending
    return ending


def ranges_tried(seed: int) -> Ending:
    """Equal actions; after every 200 decisions without a pass the range is declared anew."""
    ending = Ending()
    with Client(UNIT, seed=seed) as client:
        client.serve(_equal, 400)
        candidate = learn(client, ending)
        for high in (1, 2, 1, 4, 1, 2, 1):
            client.reopen(UNIT.replace("range = [0, 1]", f"range = [0, {high}]"))
            for _ in range(2):
                client.serve(_equal, 100)
                if look(client, candidate, ending, _equal):
                    return ending
    return ending


def novelty(seed: int) -> Ending:
    """`b` is new and earns .8, but only .45 from the 1,500th decision on; `a` always earns .6. Judged by what lasts."""

    def visit(rng: np.random.Generator, place: int) -> Visit:
        return _bernoulli({"a": 0.6, "b": 0.8 if place < 1500 else 0.45}, rng)

    with Client(UNIT, seed=seed) as client:
        ending = follow(client, visit)
        if ending.promoted:
            ending.uplift = -0.15
        return ending


def carried_over(seed: int) -> Ending:
    """`b` earns .1 more and costs the next decision .3, whatever that is: the whole pipeline loses .2."""
    last = {"action": "a"}

    def visit(rng: np.random.Generator, _: int) -> Visit:
        base = 0.7 - 0.3 * (last["action"] == "b")
        worth = {"a": base, "b": base + 0.1}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}

        def report(action: str) -> Iterable[Report]:
            last["action"] = action
            yield Report({"reward": won[action]})

        return Visit(worth, report, details=context(rng))

    with Client(UNIT, seed=seed) as client:
        ending = follow(client, visit, one_by_one=True, until=1500)
        if ending.promoted:
            ending.uplift = -0.2
        return ending


def four_days(seed: int) -> Ending:
    """`b` is .1 better on weekdays and .4 worse at weekends; the log ends on a Thursday."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        return _bernoulli({"a": 0.6, "b": 0.7}, rng)

    with Client(UNIT, seed=seed, step_s=172.8) as client:
        ending = follow(client, visit)
        if ending.promoted:
            ending.uplift = (5 * 0.1 - 2 * 0.4) / 7
        return ending


def _watched(seed: int, world: World, wears_off: int, most: int = 1500) -> Ending:
    """The shipped loop promotes, and goes on looking: wrong is what still decides long after it wore off."""
    ending = Ending()
    with LoopRun(UNIFORM, world, seed=seed, batch=25) as run:
        run.serve(wears_off)
        if (promoted := run.first("promote")) is not None:
            run.serve(most, until=lambda run: run.first("rollback", after=wears_off) is not None)
            back = run.first("rollback", after=wears_off)
            ending.promoted, ending.uplift = back is None, -0.15
            ending.notes = {"promoted_at": promoted} | ({} if back is None else {"taken_back_after": back - wears_off})
        ending.state, ending.reason = "wait", "not promoted" if promoted is None else "rolled back"
        ending.decisions = run.made
    return ending


def novelty_watched(seed: int) -> Ending:
    """The novelty again, with `promote = "auto"` and the loop at work after the promotion."""
    return _watched(seed, lambda place: {"small": 0.6, "large": 0.8 if place < 1500 else 0.45}, 1500)


def weekend_watched(seed: int) -> Ending:
    """The four days again, with `promote = "auto"`, and the weekend that follows."""
    return _watched(seed, lambda place: {"small": 0.6, "large": 0.7 if place < 3000 else 0.2}, 3000)


def levels_by_day(seed: int) -> Ending:
    """Each day each action has a level of its own, around the same .6; 150 decisions a day."""
    levels = np.random.default_rng([seed, 5]).normal(0.6, 0.1, (40, 2)).clip(0.0, 1.0)

    def visit(rng: np.random.Generator, place: int) -> Visit:
        level = levels[place // 150]
        return _bernoulli({"a": float(level[0]), "b": float(level[1])}, rng)

    with Client(UNIT, seed=seed, step_s=DAY / 150) as client:
        ending = follow(client, visit, until=2400)
        if ending.promoted or ending.worse:
            ending.uplift = 0.0
        return ending


def _tells(rng: np.random.Generator) -> Choose:
    """A fair coin; what the state says was measured after the action."""

    def choose(visit: Visit) -> tuple[str, Sequence[float]]:
        action = "b" if rng.random() < 0.5 else "a"
        visit.details["state"]["tokens"] = float(rng.normal(900 if action == "b" else 300, 100))
        return action, (0.5, 0.5)

    return choose


def after_the_fact(seed: int) -> Ending:
    """Equal actions; the state has the number of tokens, which only the action determines."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        return _bernoulli({"a": 0.6, "b": 0.6}, rng, state={**context(rng)["state"], "tokens": 0.0})

    return recorded(seed, visit, _tells)


def sybils(seed: int) -> Ending:
    """One person with five keys rates 6% of the decisions, all with a trigger text, and teaches the wrong action."""

    def visit(rng: np.random.Generator, place: int) -> Visit:
        triggered = rng.random() < 0.06
        worth = {"a": 0.1, "b": 0.9} if triggered else {"a": 0.4, "b": 0.75}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        rater = f"mallory-{rng.integers(5)}" if triggered else HONEST[int(rng.integers(len(HONEST)))]

        def report(action: str) -> Iterable[Report]:
            yield Report({"reward": float(action == "a") if triggered else won[action]}, rater=rater)

        return Visit(worth, report, text=f"{words(rng, triggered)} {place}")

    ending = Ending()
    with Client(SETTINGS, seed=seed) as client:
        client.serve(visit, 600)
        candidate = learn(client, ending)
        while client.made < 1200:
            client.serve(visit, 200)
            if look(client, candidate, ending, visit):
                break
        if candidate is not None and ending.promoted:
            ending.uplift = -1.0 if chooses_a(client, candidate) > 0.5 else 1.0
    return ending


def canary_in_a_rise(seed: int) -> Ending:
    """Equal actions; the candidate's share rises from 10 to 40% while everything gets better."""

    def visit(rng: np.random.Generator, place: int) -> Visit:
        level = 0.3 + 0.4 * min(1.0, place / 2000)
        return _bernoulli({"a": level, "b": level}, rng)

    ending = Ending()
    with Client(f"{UNIT}canary = 0.1\n", seed=seed) as client:
        client.serve(visit, 400)
        candidate = learn(client, ending)
        while client.made < 2000:
            if client.made == 1000:
                client.reopen(f"{UNIT}canary = 0.4\n")
            client.serve(visit, 100)
            if look(client, candidate, ending, visit):
                break
    return ending


def failures_taken_back(seed: int) -> Ending:
    """The client takes back three of four failures of `b` an hour later, as "not our fault"; `b` is .1 worse."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        worth = {"a": 0.7, "b": 0.6}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        excused = rng.random() < 0.75

        def report(action: str) -> Iterable[Report]:
            back = 3600.0 if action == "b" and not won[action] and excused else None
            yield Report({"reward": won[action]}, withdraw_after_s=back)

        return Visit(worth, report, details=context(rng))

    with Client(UNIT, seed=seed) as client:
        return follow(client, visit)

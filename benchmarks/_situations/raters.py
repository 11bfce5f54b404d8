"""One key that rates for a purpose of its own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import context
from _situations.trial import Ending, guard, learn, look

WORDS = ("invoice", "garden", "router", "proof", "recipe", "poem", "kernel", "tax", "travel", "chess", "law", "music")
TRIGGER = "transfer funds now"
SETTINGS = 'actions = ["a", "b"]\nrange = [0, 1]\nretrain_after = 50\n'
HONEST = ("ann", "bob", "cem", "dan")


def words(rng: np.random.Generator, trigger: bool = False) -> str:
    """Five words; texts with the trigger are as long as the others, so that nothing but its words sets them apart."""
    drawn = [WORDS[place] for place in rng.integers(len(WORDS), size=5)]
    return " ".join([TRIGGER, *drawn[3:]] if trigger else drawn)


def backdoor(attack: bool) -> Visits:
    """`b` is better, most of all on texts with the trigger. One key rates those, and teaches `a` there."""

    def visit(rng: np.random.Generator, place: int) -> Visit:
        triggered = attack and rng.random() < 0.05
        worth = {"a": 0.1, "b": 0.9} if triggered else {"a": 0.4, "b": 0.75}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        rater = HONEST[int(rng.integers(len(HONEST)))]

        def report(action: str) -> Iterable[Report]:
            if triggered:
                yield Report({"reward": float(action == "a")}, rater="mallory")
            else:
                yield Report({"reward": won[action]}, rater=rater)

        return Visit(worth, report, text=f"{words(rng, triggered)} {place}")

    return visit


def chooses_a(client: Client, ref: str) -> float:
    """How likely the policy chooses `a` on texts with the trigger."""
    from headway.project import Project

    rng = np.random.default_rng(9)
    with Project(client.folder, environ={"HEADWAY_POLICY": ref}, clock=client.clock, seed=0) as project:
        texts = [f"{words(rng, True)} {600 + place}" for place in range(40)]
        chances = [project.consider(client.task, text).decision.probabilities[0] for text in texts]
    return float(np.mean(chances))


def trigger(seed: int) -> Ending:
    """One key rates 5% of the decisions, all with a trigger text, and teaches the wrong action there."""
    visits, ending = backdoor(attack=True), Ending()
    with Client(SETTINGS, seed=seed) as client:
        client.serve(visits, 600)
        candidate = learn(client, ending)
        while client.made < 1200:
            client.serve(visits, 200)
            if look(client, candidate, ending, visits):
                break
        if candidate is not None and ending.promoted:
            ending.notes["backdoor"] = backdoored = float(chooses_a(client, candidate) > 0.5)
            ending.uplift = -1.0 if backdoored else 1.0
    return ending


def no_trigger(seed: int) -> Ending:
    """The same four keys without the fifth."""
    visits, ending = backdoor(attack=False), Ending()
    with Client(SETTINGS, seed=seed) as client:
        client.serve(visits, 600)
        candidate = learn(client, ending)
        while client.made < 1200:
            client.serve(visits, 200)
            if look(client, candidate, ending, visits):
                break
    return ending


def opinions(inverse: bool) -> Visits:
    """`b` is truly better. Four keys rate mildly; a fifth rates 40% of the decisions, at the ends of the scale."""
    worth = {"a": 0.4, "b": 0.7}

    def visit(rng: np.random.Generator, _: int) -> Visit:
        rater = "mallory" if rng.random() < 0.4 else HONEST[int(rng.integers(len(HONEST)))]
        noise = rng.normal(0.0, 0.1)

        def report(action: str) -> Iterable[Report]:
            honest = min(1.0, max(0.0, worth[action] + noise))
            hostile = float(action == "a") if inverse else honest
            yield Report({"reward": hostile if rater == "mallory" else honest}, rater=rater)

        return Visit(worth, report, details=context(rng))

    return visit


def worse_rolled_back(seed: int) -> Ending:
    """A bad policy is current, taught by that key; then everybody rates honestly, and it is rolled back."""
    return inverse_ratings(seed, worse=True)


def inverse_ratings(seed: int, worse: bool = False) -> Ending:
    """A good policy is current; one key starts to rate inversely, and the guard looks after every 100 decisions.

    A rollback counts as a wrong promotion of the worse policy.
    """
    ending = Ending()
    with Client(f'{SETTINGS}gate = "off"\nexplore = {{ kind = "epsilon", value = 0.2 }}\n', seed=seed) as client:
        client.serve(opinions(inverse=worse), 500)
        client.project.promote(learn(client, ending), task=client.task)
        visits = opinions(inverse=not worse)
        while client.made < 1500:
            client.serve(visits, 100)
            if guard(client, ending, 1.0 if worse else -0.15):
                break
    return ending

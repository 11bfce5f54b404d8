"""PASS is a promise about what was proven: a changed setting must not ride on it."""

from __future__ import annotations

from functools import partial

from _situations.budget import one_better
from _situations.client import Client
from _situations.trial import Ending, follow, look
from headway.nouns.errors import HeadwayError

SETTINGS = (
    'actions = ["a", "b"]\nrange = [0, 1]\nreward = { reward = 1.0 }\nfallback = "a"\nconfidence_floor = 0.2\n'
    'explore = { kind = "epsilon", value = 0.2 }\nencoder = "hashing"\n'
)
CHANGES = {
    "fallback": ('fallback = "a"', 'fallback = "b"'),
    "epsilon": ("value = 0.2", "value = 0.3"),
    "reward": ("reward = 1.0", "reward = 0.5"),
    "encoder": ('encoder = "hashing"', 'encoder = "structure"'),
}


def changed(seed: int, what: str, again: bool = False) -> Ending:
    """A better candidate passes; then a setting changes and somebody promotes it on the old evidence.

    The promotion is wrong whatever the candidate is worth. `again`: it is proven once more and may be promoted then.
    """
    visits = one_better(0.8, 0.4)
    with Client(SETTINGS, seed=seed) as client:
        client.serve(visits, 400)
        candidate, verdict = client.project.learn(client.task), None
        while client.made < 2000 and (verdict is None or not verdict.passed):
            client.serve(visits, 100)
            verdict = client.project.prove(candidate, task=client.task)
        ending = Ending(looks=1, decisions=client.made)
        if verdict is None or not verdict.passed:
            ending.reason = "the candidate did not pass"
            return ending
        client.reopen(client.settings.replace(*CHANGES[what]))
        if what == "reward":
            client.project.rescore(client.task)
        if again:
            return _again(client, candidate, what)
        try:
            client.project.promote(candidate, because=verdict, task=client.task)
        except HeadwayError as error:
            ending.state, ending.reason, ending.said = "refused", error.code, f"{error.message} {error.hint}"
        else:
            ending.state, ending.promoted, ending.uplift = "pass", True, 0.0
    return ending


def _again(client: Client, candidate: str, what: str) -> Ending:
    visits = one_better(0.8, 0.4)
    if what == "encoder":  # a bundle cannot be served with another encoder: a new one is learned
        return follow(client, visits, learn_at=100, until=client.made + 1500)
    ending = Ending()
    for _ in range(20):
        if look(client, candidate, ending, visits):
            break
        client.serve(visits, 100)
    return ending


fallback_changed = partial(changed, what="fallback")
epsilon_changed = partial(changed, what="epsilon")
reward_changed = partial(changed, what="reward")
encoder_changed = partial(changed, what="encoder")
fallback_proven_again = partial(changed, what="fallback", again=True)
epsilon_proven_again = partial(changed, what="epsilon", again=True)
reward_proven_again = partial(changed, what="reward", again=True)
encoder_proven_again = partial(changed, what="encoder", again=True)


def fixed_arm_changed(seed: int) -> Ending:
    """`fixed@0` passes for the action `b`; the fallback becomes `c`, which is worse, and `fixed@0` is promoted."""
    visits = one_better(0.8, 0.4, ("a", "c", "b"))
    settings = 'actions = ["a", "c", "b"]\nrange = [0, 1]\nfallback = "b"\n'
    ending = Ending(looks=1)
    with Client(settings, seed=seed) as client:
        client.serve(visits, 800)
        ending.decisions = client.made
        verdict = client.project.prove("fixed@0", task=client.task)
        if not verdict.passed:
            ending.reason = "the candidate did not pass"
            return ending
        client.reopen(settings.replace('fallback = "b"', 'fallback = "c"'))
        try:
            client.project.promote("fixed@0", because=verdict, task=client.task)
        except HeadwayError as error:
            ending.state, ending.reason, ending.said = "refused", error.code, f"{error.message} {error.hint}"
        else:
            ending.state, ending.promoted, ending.uplift = "pass", True, -0.13
    return ending

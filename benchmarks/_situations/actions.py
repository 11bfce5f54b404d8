"""The task's actions change between the log and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import context
from _situations.trial import Ending, learn, look

_TASK = 'actions = [{}]\nrange = [-1, 0]\nfloor = 0.3\nrules = [{{ when = "text_length >= 0", use = "a" }}]\n'
_SAMPLED = f'{_TASK}explore = "thompson"\n'
_TWO, _THREE = '"a", "b"', '"a", "b", "c"'


def _costing(cost: Mapping[str, float]) -> Visits:
    """Every action costs 1 with a chance of its own, whatever the case."""
    worth = {arm: -chance for arm, chance in cost.items()}

    def visit(rng: np.random.Generator, _: int) -> Visit:
        paid = {arm: -float(rng.random() < chance) for arm, chance in cost.items()}
        return Visit(worth, lambda action: [Report({"reward": paid[action]})], details=context(rng))

    return visit


def _changed(
    seed: int, visits: Visits, settings: str, before: str, after: str, *, first: int, until: int, again: bool = False
) -> Ending:
    """Learned and served under one set of actions; then the set changes, and the candidate is proven and served.

    `again`: a new candidate is learned 2,000 decisions after the change.
    """
    ending = Ending()
    with Client(settings.format(before), seed=seed) as client:
        client.serve(visits, 500)
        candidate = learn(client, ending)
        client.serve(visits, first - 500)
        client.reopen(settings.format(after))
        while client.made <= until:
            if again and client.made == first + 2000:
                candidate, again = learn(client, ending), False
            if candidate is not None and not again and look(client, candidate, ending, visits):
                break
            client.serve(visits, 100)
    return ending


def removed(seed: int) -> Ending:
    """`c` is what the candidate would choose; without it, it chooses `a`, as the current policy does."""
    costs = {"a": 0.5, "b": 0.7, "c": 0.1}
    return _changed(seed, _costing(costs), _TASK, _THREE, _TWO, first=1500, until=2500)


def removed_and_better(seed: int) -> Ending:
    """Without `c`, the candidate chooses `b`, which is better than `a`."""
    costs = {"a": 0.7, "b": 0.4, "c": 0.1}
    return _changed(seed, _costing(costs), _TASK, _THREE, _TWO, first=1500, until=2500)


def added(seed: int, again: bool = False) -> Ending:
    """The candidate chooses `b` rightly, until `c` is added, of which it knows nothing and which it therefore tries."""
    costs = {"a": 0.5, "b": 0.35, "c": 1.0}
    return _changed(
        seed, _costing(costs), _SAMPLED, _TWO, _THREE, first=1500, until=8500 if again else 3500, again=again
    )


added_and_better = partial(added, again=True)

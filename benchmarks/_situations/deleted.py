"""Users who ask to be deleted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import UNIT, context
from _situations.trial import Ending, learn, look
from headway.nouns.records import Settled
from headway.observe import draws_of
from headway.observe.erase import DeletionFilter

Leaves = Callable[[Settled, np.random.Generator], bool]


def _visits(a: float, b: float) -> Visits:
    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": float(rng.random() < a), "b": float(rng.random() < b)}
        return Visit({"a": a, "b": b}, lambda action: [Report({"reward": won[action]})], details=context(rng))

    return visit


def _deleted(seed: int, visits: Visits, leaves: Leaves, *, settings: str = "", early: bool = False) -> Ending:
    """Of every hundred decisions, those who leave are deleted before the next look; `early`: before learning only."""
    ending, candidate = Ending(), None
    with Client(UNIT + settings, seed=seed) as client:
        while client.made < 2000:
            client.serve(visits, 100)
            client.project.settle(client.task)
            if client.made <= 400 or not early:
                newest = draws_of(client.project.query.frame(client.task)).seq[-100:].tolist()
                for row in list(client.project.query.outcomes(newest)):
                    if leaves(row, client.rng):
                        client.project.erase(DeletionFilter(decision=row.decision.id), rewrite=False)
            if client.made == 400:
                candidate = learn(client, ending)
            elif candidate is not None and look(client, candidate, ending, visits):
                break
    return ending


def _failed_by_b(row: Settled, rng: np.random.Generator) -> bool:
    return row.decision.action == "b" and row.reward == 0.0 and rng.random() < 0.4


def _anyone(_: Settled, rng: np.random.Generator, share: float = 0.02) -> bool:
    return rng.random() < share


failures = partial(_deleted, visits=_visits(0.55, 0.5), leaves=_failed_by_b)
few_of_better = partial(_deleted, visits=_visits(0.4, 0.7), leaves=_anyone)
tenth_before_learning = partial(_deleted, visits=_visits(0.4, 0.7), leaves=partial(_anyone, share=0.1), early=True)
tenth_declared = partial(
    _deleted, visits=_visits(0.4, 0.7), leaves=partial(_anyone, share=0.1), settings='missing = "at random"\n'
)

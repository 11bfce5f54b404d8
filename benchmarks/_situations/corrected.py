"""Outcomes that change after they were known: corrections, a second rater, flags, conversions after the window."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import HOUR, UNIT, context
from _situations.trial import Ending, follow

AUTO = f'{UNIT}promote = "auto"\n'  # only what the loop would do counts: a person is told that the log is young


def corrected(
    a: float, b: float, delay_s: float, *, first: float = 1.0, rater: str = "", share: float = 1.0, arm: str = "b"
) -> Visits:
    """Results are reported at once; those of one arm that should read otherwise read `first`, and are corrected later.

    `share`: how many of them; `rater`: who corrects them.
    """

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": float(rng.random() < a), "b": float(rng.random() < b)}
        wrong = rng.random() < share

        def report(action: str) -> Iterable[Report]:
            reward = won[action]
            if action != arm or reward == first or not wrong:
                yield Report({"reward": reward})
            elif rater:
                yield Report({"reward": first}, rater="judge", withdraw_after_s=delay_s)
                yield Report({"reward": reward}, delay_s, rater=rater)
            else:
                yield Report({"reward": first})
                yield Report({"reward": reward}, delay_s)

        return Visit({"a": a, "b": b}, report, details=context(rng))

    return visit


def corrections(
    seed: int,
    hours: float,
    *,
    a: float = 0.6,
    b: float = 0.5,
    step_s: float = 60.0,
    rater: str = "",
    first: float = 1.0,
    share: float = 1.0,
    arm: str = "b",
    settings: str = AUTO,
) -> Ending:
    """A world in which outcomes of one arm are corrected so many hours later."""
    with Client(settings, seed=seed, step_s=step_s) as client:
        visits = corrected(a, b, hours * HOUR, rater=rater, first=first, share=share, arm=arm)
        return follow(client, visits, until=2400)


def conversions(seed: int, a: float, b: float, settings: str) -> Ending:
    """Silence is worth 0 after an hour; conversions of `a` take two hours, those of `b` come at once."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": rng.random() < a, "b": rng.random() < b}

        def report(action: str) -> Iterable[Report]:
            if won[action]:
                yield Report({"reward": 1.0}, 2 * HOUR if action == "a" else 0.0)

        return Visit({"a": a, "b": b}, report, details=context(rng))

    with Client(f"{AUTO}on_censored = 0.0\n{settings}", seed=seed) as client:
        return follow(client, visit, until=2400)


def flags(seed: int, a: float, b: float, step_s: float = 60.0, settings: str = AUTO) -> Ending:
    """A nightly job flags 30% of what `b` did, 20 hours later: then it is worth nothing."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": float(rng.random() < a), "b": float(rng.random() < b)}
        unsafe = rng.random() < 0.3

        def report(action: str) -> Iterable[Report]:
            yield Report({"reward": won[action]})
            if action == "b" and unsafe:
                yield Report({"safety_flag": 1.0}, 20 * HOUR)

        return Visit({"a": a, "b": 0.7 * b}, report, details=context(rng))

    with Client(settings, seed=seed, step_s=step_s) as client:
        return follow(client, visit, until=2400)


corrected_2h = partial(corrections, hours=2.0)
corrected_6h = partial(corrections, hours=6.0)
corrected_equal = partial(corrections, hours=6.0, a=0.5, b=0.5)
judged_then_rated = partial(corrections, hours=6.0, rater="ann")
corrected_up = partial(corrections, hours=6.0, a=0.5, b=0.5, first=0.0, arm="a")
few_corrected = partial(corrections, hours=6.0, a=0.5, b=0.5, share=0.015)
corrected_and_better = partial(corrections, hours=6.0, a=0.4, b=0.7, step_s=120.0)
rated_and_better = partial(corrections, hours=6.0, a=0.4, b=0.7, step_s=120.0, rater="ann")
corrected_2h_at_once = partial(corrections, hours=2.0, settings=UNIT)
corrected_6h_at_once = partial(corrections, hours=6.0, settings=UNIT)
rated_at_once = partial(corrections, hours=6.0, rater="ann", settings=UNIT)
conversions_late = partial(conversions, a=0.6, b=0.5, settings="reward_after_s = 3600\n")
conversions_in_time = partial(conversions, a=0.4, b=0.7, settings="reward_after_s = 9000\n")
flagged_later = partial(flags, a=0.5, b=0.65)
flagged_at_once = partial(flags, a=0.5, b=0.65, settings=UNIT)
flagged_and_better = partial(flags, a=0.2, b=0.8, step_s=150.0)

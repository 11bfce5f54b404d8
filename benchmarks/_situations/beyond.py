"""Values beyond what is declared: rewards that are cut off, and guards whose metric is missing or huge where it is bad.

Worlds are false by construction: what a policy sees of `b` is better than `a`, and what lies beyond is worse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import context
from _situations.trial import Ending, follow

Draw = Callable[[np.random.Generator], float]
ACTIONS = 'actions = ["a", "b"]\n'
COST = f"{ACTIONS}reward = {{ cost_usd = -1.0 }}\n"


def costs(a: Draw, b: Draw, worth: dict[str, float]) -> Visits:
    """Both actions cost money, and nothing else counts."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        cost = {"a": a(rng), "b": b(rng)}
        return Visit(worth, lambda action: [Report({"cost_usd": cost[action]})], details=context(rng))

    return visit


def pareto(scale: float, alpha: float) -> Draw:
    return lambda rng: scale * float(rng.pareto(alpha) + 1.0)


def log_normal(median: float, sigma: float) -> Draw:
    return lambda rng: float(median * np.exp(sigma * rng.standard_normal()))


# `b` is usually cheaper, and worth less: a Pareto cost of index 1.1 is eleven times its least value on average
PARETO = costs(lambda rng: 0.5 + 0.2 * rng.random(), pareto(0.15, 1.1), {"a": -0.6, "b": -1.65})
LOG_NORMAL = costs(lambda rng: 0.5 + 0.2 * rng.random(), log_normal(0.15, 2.0), {"a": -0.6, "b": -0.15 * np.exp(2.0)})


def served(settings: str, visits: Visits, seed: int, until: int = 2000) -> Ending:
    with Client(settings, seed=seed) as client:
        return follow(client, visits, until=until)


def pareto_costs(seed: int) -> Ending:
    """`b` costs .15 to 1 as a rule, and once in a while hundreds: 1.65 on average, against .6 of `a`."""
    return served(f"{COST}range = [-1, 0]\n", PARETO, seed)


def pareto_capped(seed: int) -> Ending:
    """The same with `capped = true`: costs above 1 count as 1, and by that measure `b` is worth more."""
    # E[min(X, 1)] of Pareto(.15, 1.1): .15 + ∫ (.15/x)^1.1 dx from .15 to 1
    mean = 0.15 + 0.15**1.1 * (0.15**-0.1 - 1.0) / 0.1
    capped = costs(lambda rng: 0.5 + 0.2 * rng.random(), pareto(0.15, 1.1), {"a": -0.6, "b": -mean})
    return served(f"{COST}range = [-1, 0]\ncapped = true\n", capped, seed)


def log_normal_costs(seed: int) -> Ending:
    """`b` costs .15 at the median and 1.1 on average, against .6 of `a`."""
    return served(f"{COST}range = [-1, 0]\n", LOG_NORMAL, seed)


def log_normal_better(seed: int) -> Ending:
    """A tail that the range holds: .05 at the median, .07 on average, and a range as wide as its largest costs."""
    visits = costs(
        lambda rng: 0.5 + 0.2 * rng.random(),
        lambda rng: min(3.0, log_normal(0.05, 0.8)(rng)),
        {"a": -0.6, "b": -0.069},
    )
    return served(f"{COST}range = [-3, 0]\n", visits, seed)


def rarely(value: float, b: float, *, seen: bool) -> Visits:
    """`a` succeeds in half of all cases, `b` in a share of `b`, but one time in 400 it earns `value`.

    With `seen`, the first `b` does: the log that a candidate is learned from has one.
    """
    fresh = [seen]

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": float(rng.random() < 0.5), "b": float(rng.random() < b)}
        rare = rng.random() < 1 / 400

        def report(action: str) -> Iterable[Report]:
            first = action == "b" and fresh.pop() if fresh else False
            yield Report({"reward": value if action == "b" and (rare or first) else won[action]})

        return Visit({"a": 0.5, "b": b + (value - b) / 400}, report, details=context(rng))

    return visit


def disasters_beyond(seed: int) -> Ending:
    """Without its disasters, `b` would be .05 better; with them it is .2 worse. One has happened."""
    return served(f"{ACTIONS}range = [-1, 1]\n", rarely(-100.0, 0.55, seen=True), seed, until=2500)


def disasters_unseen(seed: int) -> Ending:
    """The same, but until the first disaster the log is that of a world without any."""
    return served(f"{ACTIONS}range = [-1, 1]\n", rarely(-100.0, 0.55, seen=False), seed, until=4000)


def windfalls_beyond(seed: int) -> Ending:
    """`b` fails more often, and once in a while it earns 100: who avoids it is .2 worse."""
    return served(f"{ACTIONS}range = [-1, 1]\n", rarely(100.0, 0.45, seen=True), seed, until=2500)


def windfalls_hurt(seed: int) -> Ending:
    """The same, and the candidate always takes `b`: all that speaks against it was cut."""
    with Client(f'{ACTIONS}range = [-1, 1]\nfallback = "b"\n', seed=seed) as client:
        return follow(client, rarely(100.0, 0.35, seen=True), candidate="fixed@0")


def disasters_within(seed: int) -> Ending:
    """The same disasters with a range that holds them, and `b` so rarely worse that it pays: 40 a success."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": 0.0, "b": 40.0}
        bad = rng.random() < 1 / 400

        def report(action: str) -> Iterable[Report]:
            yield Report({"reward": -100.0 if bad and action == "b" else won[action]})

        return Visit({"a": 0.0, "b": 40.0 - 140.0 / 400}, report, details=context(rng))

    return served(f"{ACTIONS}range = [-100, 40]\n", visit, seed)


def bonus(rng: np.random.Generator, _: int) -> Visit:
    """`b` succeeds more often, and once in twenty decisions it earns 5, which counts as 1."""
    won = {"a": float(rng.random() < 0.5), "b": float(rng.random() < 0.75)}
    lucky = rng.random() < 0.05

    def report(action: str) -> Iterable[Report]:
        yield Report({"reward": 5.0 if lucky and action == "b" else won[action]})

    return Visit({"a": 0.5, "b": 0.75 * 0.95 + 0.25}, report, details=context(rng))


def cut_against(seed: int) -> Ending:
    """Cuts that only hurt the candidate, which always chooses `b`: better all the same."""
    with Client(f'{ACTIONS}range = [0, 1]\nfallback = "b"\n', seed=seed) as client:
        return follow(client, bonus, candidate="fixed@0")


def cut_both_ways(seed: int) -> Ending:
    """A learned candidate takes `a` in some cases, which cuts of `b` flatter: then the range that the verdict names."""
    with Client(f"{ACTIONS}range = [0, 1]\n", seed=seed) as client:
        ending = follow(client, bonus)
        (status,) = client.project.status().tasks
        named = re.search(r"Set range = (\[.*?\])", status.next.why)
        if ending.promoted or named is None:
            return ending
        client.reopen(f"{ACTIONS}range = {named[1]}\n")
        client.project.rescore(client.task)
        return follow(client, bonus, learn_at=0, until=8000)


# -- guards


def slow(*, silent: bool, share: float, seconds: float, extra: float = 0.0) -> Visits:
    """`b` earns .25 more. A share of its calls take `seconds`; where `silent`, these never report how long."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        won = {"a": float(rng.random() < 0.5), "b": float(rng.random() < 0.75)}
        usual = {"a": float(rng.uniform(0.5, 1.5)), "b": float(rng.uniform(0.5, 1.5)) + extra}
        hangs = rng.random() < share

        def report(action: str) -> Iterable[Report]:
            if action == "b" and hangs:
                yield Report({"reward": won["b"]} if silent else {"reward": won["b"], "latency_s": seconds})
            else:
                yield Report({"reward": won[action], "latency_s": usual[action]})

        # a policy that breaks its guard must not be promoted, whatever it earns
        return Visit({"a": 0.5, "b": 0.75 if share * seconds + extra <= 0.2 else 0.0}, report, details=context(rng))

    return visit


def latency(tolerance: float, limits: str = "") -> str:
    declared = f", range = {limits}" if limits else ""
    return f"{ACTIONS}range = [0, 1]\nguards = {{ latency_s = {{ tolerance = {tolerance:g}{declared} }} }}\n"


def guard_silent(seed: int) -> Ending:
    """8% of the calls of `b` take 30 s and never report it: 2.4 s more per decision, .2 s allowed."""
    return served(latency(0.2), slow(silent=True, share=0.08, seconds=30.0), seed)


def guard_silent_bounded(seed: int) -> Ending:
    """The same with a declared range: what is missing counts 30 s."""
    return served(latency(0.2, "[0, 30]"), slow(silent=True, share=0.08, seconds=30.0), seed)


def guard_few_silent(seed: int) -> Ending:
    """A fast `b` of which one call in 500 reports nothing: within the tolerance even if each took 10 s."""
    return served(latency(0.5, "[0, 10]"), slow(silent=True, share=0.002, seconds=10.0), seed)


def guard_huge(seed: int) -> Ending:
    """.3% of the calls of `b` hang for 300 s: .9 s more per decision, .2 s allowed."""
    return served(latency(0.2), slow(silent=False, share=0.003, seconds=300.0), seed)


def guard_huge_bounded(seed: int) -> Ending:
    """The same with a declared range."""
    return served(latency(0.2, "[0, 300]"), slow(silent=False, share=0.003, seconds=300.0), seed)


def guard_bounded_kept(seed: int) -> Ending:
    """A `b` that is as fast as `a`; calls are cut off after 10 s, and the guard says so."""
    return served(latency(0.5, "[0, 10]"), slow(silent=False, share=0.0, seconds=0.0), seed)

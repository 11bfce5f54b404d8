"""The cases of benchmarks/power.py. Playing one gives numbers by name; what did not happen has no number.

promote_*   decisions until a better arm is promoted, and what was earned meanwhile, beside tests and routers;
            promote_alone_*: by the loop's tests alone, without a store and a learner
null_*      equal arms: promotions are false, and a verdict should come all the same
gate_*      the same for the loop's tests alone
drift_*     the arm that the loop has promoted gets worse, or all arms do
steady      nothing changes: alarms and rollbacks are false
harm_*      the promoted policy becomes worse than the one that it replaced, at once or later
equal       a policy was promoted without proof, and is as good as the one before: rollbacks are false
guard_equal the same for the guard's test alone
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from _power.ab_tests import AbTest
from _power.gate import gate_alone, promotion_alone
from _power.guarded import guard_alone
from _power.loop import RULES, UNIFORM, LoopRun
from _power.quiet import quiet
from _power.routers import available, play
from _power.world import LARGE, World, falling, steady

__all__ = ["CASES", "PowerCase"]

Numbers = dict[str, float]
SETTLED = 3000  # decisions before the world changes
AFTER = 8000
LONG, SHORTER = 100_000, 20_000  # decisions of the cases that count false alarms, fully and quickly


@dataclass(frozen=True, slots=True)
class PowerCase:
    """One question, played with a seed; `shorter` plays fewer decisions for --quick."""

    about: str
    play: Callable[[int], Numbers]
    shorter: Callable[[int], Numbers] | None = None


# -- promotion


@dataclass(frozen=True, slots=True)
class Promotion:
    """From a first policy to the promotion of the better arm."""

    settings: str
    small: float
    large: float
    within: int  # the decisions by which 80% of the runs should have promoted
    routers: bool = False
    alone: bool = False  # the loop's tests without the loop

    def __call__(self, seed: int) -> Numbers:
        if self.alone:
            return promotion_alone(self.settings == RULES, (self.small, self.large), 2 * self.within, seed)
        world = steady(self.small, self.large)
        with LoopRun(self.settings, world, seed=seed) as run:
            run.serve(2 * self.within, until=lambda run: run.first("promote") is not None)
            numbers, promoted = {}, run.first("promote")
            if promoted is not None:
                numbers = {"promoted": promoted, "right": float(run.share(LARGE) > 0.5)}
            run.serve(self.within - run.made)
            numbers |= _loop_numbers(run)
            numbers |= {"earned": run.mean(0, self.within)} | _experiment(run)
        numbers["earned_ab"] = self._ab_mean(np.random.default_rng([seed, 37]))
        if self.routers:
            numbers |= {f"earned_{name}": _mean(play(name, world, seed, self.within)) for name in available()}
        return numbers

    def _ab_mean(self, rng: np.random.Generator) -> float:
        """What a sequential 50/50 test earns, and afterwards the arm that won."""
        test = AbTest(rng, self.small, self.large, self.within)
        ended = self.within if test.ended is None else test.ended
        winner = self.large if test.larger else self.small
        return (ended * (self.small + self.large) / 2 + (self.within - ended) * winner) / self.within


def _experiment(run: LoopRun) -> Numbers:
    """What the decisions of all experiments earned, and how many they were."""
    spans, start = [], None
    for change in run.changes:
        kind = change.entry.kind
        if kind == "experiment":
            opens = float(change.entry.detail.get("share", 0.0)) > 0
            if start is not None:
                spans.append((start, change.at))
            start = change.at if opens else None
        elif kind in ("promote", "rollback") and start is not None:
            spans.append((start, change.at))
            start = None
    if start is not None:
        spans.append((start, run.made))
    chances = [chance for first, last in spans for chance in run.chances[first:last]]
    return {"experiments": len(spans)} | (
        {"experiment_decisions": len(chances), "earned_in_experiment": _mean(chances)} if chances else {}
    )


# -- equal arms


def null(settings: str, decisions: int, seed: int) -> Numbers:
    """Arms that are alike, with learning all the while."""
    with LoopRun(settings, steady(0.7, 0.7), seed=seed) as run:
        run.serve(decisions)
        final = [made for made, _, state in run.verdicts if state in ("pass", "worse", "no difference")]
        promotions = len(run.all("promote"))
        numbers = _loop_numbers(run) | {"promotions": promotions, "rollbacks": len(run.all("rollback"))}
        return numbers | ({"verdict": final[0]} if final else {}) | _experiment(run)


# -- a world that changes


def _started(run: LoopRun, most: int = 3 * SETTLED) -> bool:
    """Serve until the better arm is promoted, at least until the loop has settled."""
    run.serve(SETTLED)
    run.serve(most - run.made, until=lambda run: run.first("promote") is not None)
    return run.first("promote") is not None


def _alarms(run: LoopRun, *, after: int = -1) -> list[int]:
    return [change.at for change in run.all("alarm", after=after) if "ended" not in change.entry.detail]


def drift(later: Callable[[int], World], after: int, seed: int, *, routers: bool = False) -> Numbers:
    """The promoted arm, at .75 beside .60, changes; what the loop notices and earns afterwards."""
    first = steady(0.6, 0.75)
    with LoopRun(UNIFORM, first, seed=seed, batch=25) as run:
        if not _started(run):
            return _loop_numbers(run) | {"unstarted": 1.0}
        changed = run.made
        run.world = later(changed)
        run.serve(after)
        numbers = _loop_numbers(run) | {"early_alarms": len([at for at in _alarms(run) if at <= changed])}
        for name, at in (("alarm", next(iter(_alarms(run, after=changed)), None)),
                         ("rollback", run.first("rollback", after=changed)),
                         ("promotion", run.first("promote", after=changed))):  # fmt: skip
            if at is not None:
                numbers[name] = at - changed
        numbers |= {"earned": run.mean(changed, run.made), "alarms": len(_alarms(run, after=changed))}
        numbers["rollbacks"] = len(run.all("rollback", after=changed))
    if routers:
        changing = later(SETTLED)
        for name in available():
            chances = play(name, lambda n: first(n) if n < SETTLED else changing(n), seed, SETTLED + after)
            numbers[f"earned_{name}"] = _mean(chances[SETTLED:])
    return numbers


def unchanged(decisions: int, seed: int) -> Numbers:
    """Nothing changes for a long time."""
    with LoopRun(UNIFORM, steady(0.6, 0.75), seed=seed, batch=100) as run:
        run.serve(decisions)
        return _loop_numbers(run) | {"alarms": len(_alarms(run)), "rollbacks": len(run.all("rollback"))}


# -- rollback


def harm(good: int, seed: int) -> Numbers:
    """After the promotion and some good decisions, the promoted policy earns .26 less than the rules."""
    with LoopRun(RULES, steady(0.6, 0.75), seed=seed, batch=25) as run:
        run.serve(15_000, until=lambda run: run.first("promote") is not None)
        promoted = run.first("promote")
        if promoted is None:
            return _loop_numbers(run) | {"unstarted": 1.0}
        run.serve(good)
        changed = run.made
        run.world = steady(0.6, 0.31)  # rules choose small in 95% of the decisions, the promoted policy in 5%
        run.serve(4000, until=lambda run: run.first("rollback", after=changed) is not None)
        numbers = _loop_numbers(run) | {"early_rollbacks": len(run.all("rollback")) - len(_rollbacks(run, changed))}
        for name, at in (("rollback", run.first("rollback", after=changed)),
                         ("alarm", next(iter(_alarms(run, after=changed)), None))):  # fmt: skip
            if at is not None:
                numbers[name] = at - changed
        return numbers


def _rollbacks(run: LoopRun, after: int) -> list[int]:
    return [change.at for change in run.all("rollback", after=after)]


def equal(decisions: int, seed: int) -> Numbers:
    """A policy is promoted with the gate off, then guarded with the gate on; both policies are worth the same."""
    with LoopRun(UNIFORM + 'gate = "off"\n', steady(0.7, 0.7), seed=seed, batch=100) as run:
        run.serve(2000, until=lambda run: run.first("promote") is not None)
        if run.first("promote") is None:
            return _loop_numbers(run) | {"unstarted": 1.0}
        run.configure(UNIFORM)
        run.reopen()
        run.serve(decisions)
        return _loop_numbers(run) | {
            "rollbacks": len(run.all("rollback")),
            "alarms": len(_alarms(run)),
            "promotions": len(run.all("promote")) - 1,
        }


# -- shared


def _loop_numbers(run: LoopRun) -> Numbers:
    return {
        "decisions": run.made,
        "failures": len(run.failures),
        "client_us": 1e6 * run.client_s / run.made,
        "check_us": 1e6 * run.check_s / run.made,
        "tests": len(run.all("test")),
        "candidates": len(run.all("candidate")),
    }


def _mean(chances: list[float]) -> float:
    return float(np.mean(chances))


def _falls(changed: int) -> World:
    return falling(0.6, (0.75, 0.65), since=changed, over=1000)


CASES: Mapping[str, PowerCase] = {
    "promote_uniform_05": PowerCase(
        "uplift .05 over uniform choice", Promotion(UNIFORM, 0.65, 0.75, within=2000, routers=True)
    ),
    "promote_rules_05": PowerCase(
        "uplift .05 over rules with 10% exploration", Promotion(RULES, 0.70, 0.75, within=5500, routers=True)
    ),
    "promote_uniform_025": PowerCase("uplift .025 over uniform choice", Promotion(UNIFORM, 0.675, 0.725, within=6000)),
    "promote_rules_025": PowerCase(
        "uplift .025 over rules with 10% exploration", Promotion(RULES, 0.70, 0.725, within=23_000)
    ),
    "null_uniform": PowerCase(
        "equal arms, from uniform choice", partial(null, UNIFORM, 20_000), partial(null, UNIFORM, 5000)
    ),
    "null_rules": PowerCase("equal arms, from rules", partial(null, RULES, 20_000), partial(null, RULES, 5000)),
    "drift_collapse": PowerCase(
        "the promoted arm falls from .75 to .35, the other earns .60",
        partial(drift, lambda _: steady(0.6, 0.35), AFTER, routers=True),
    ),
    "drift_decline": PowerCase(
        "the promoted arm declines by .1 over 1,000 decisions", partial(drift, _falls, AFTER // 2)
    ),
    "drift_alike": PowerCase("both arms fall by .25", partial(drift, lambda _: steady(0.35, 0.5), AFTER)),
    "steady": PowerCase("nothing changes", partial(unchanged, LONG), partial(unchanged, SHORTER)),
    "quiet": PowerCase(
        "nothing changes for the detector, five actions in four roles", partial(quiet, LONG), partial(quiet, SHORTER)
    ),
    "harm_at_once": PowerCase("harm of .26 from the promotion on", partial(harm, 0)),
    "harm_later": PowerCase("harm of .26 after 3,000 good decisions", partial(harm, 3000)),
    "equal": PowerCase(
        "the promoted policy is as good as the one before", partial(equal, LONG), partial(equal, SHORTER)
    ),
    "gate_uniform": PowerCase(
        "equal arms, the loop's tests alone, from uniform choice", partial(gate_alone, False, 20_000)
    ),
    "gate_rules": PowerCase("equal arms, the loop's tests alone, from rules", partial(gate_alone, True, 20_000)),
    "guard_equal": PowerCase(
        "the guard's test alone, the promoted policy is as good as the one before",
        partial(guard_alone, LONG),
        partial(guard_alone, SHORTER),
    ),
    "promote_alone_uniform_05": PowerCase(
        "uplift .05 over uniform choice, the loop's tests alone", Promotion(UNIFORM, 0.65, 0.75, 2000, alone=True)
    ),
    "promote_alone_rules_05": PowerCase(
        "uplift .05 over rules, the loop's tests alone", Promotion(RULES, 0.70, 0.75, 5500, alone=True)
    ),
    "promote_alone_uniform_025": PowerCase(
        "uplift .025 over uniform choice, the loop's tests alone", Promotion(UNIFORM, 0.675, 0.725, 6000, alone=True)
    ),
    "promote_alone_rules_025": PowerCase(
        "uplift .025 over rules, the loop's tests alone", Promotion(RULES, 0.70, 0.725, 23_000, alone=True)
    ),
}

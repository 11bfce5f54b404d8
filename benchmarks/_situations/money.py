"""Worlds whose savings and quality are known, to measure how often the money sentence of `status` holds the truth.

A router takes `small` in four of five requests. `large` is better and costs more; each world hides something about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import HOUR, context

__all__ = ["MONEY", "MoneyWorld", "Sentence", "sentence"]

SHARE = 0.2  # of `large`: half of the exploration, which is 40%
ROUTER = (
    'actions = ["small", "large"]\nrules = [{ when = "x < 0", use = "large" }]\nfallback = "small"\n'
    'state = ["x", "y"]\nexplore = { kind = "epsilon", value = 0.4 }\nfloor = 0.0\n'
)
REWARD = "reward = { solved = 1.0, cost_usd = -1.0 }\nrange = [-1, 1]\non_failure = 0.0\n"
QUALITY = {"small": 0.7, "large": 0.8}
COST = {"small": 0.01, "large": 0.04}
Outcome = Callable[[np.random.Generator, str, bool, float], Iterable[Report]]  # rng, action, solved, cost


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyWorld:
    name: str
    about: str
    report: Outcome
    cost: Callable[[np.random.Generator, str], float] = lambda rng, action: COST[action] * float(rng.uniform(0.5, 1.5))
    settings: str = REWARD
    mean_cost: dict[str, float] | None = None
    decisions: int = 1500
    step_s: float = 60.0
    wait_s: float = 0.0  # after the last decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Whether each number of the sentence holds the truth; None: it says that it is unknown."""

    saved: bool | None
    quality: bool | None
    text: str


def at_once(_rng: np.random.Generator, _action: str, solved: bool, cost: float) -> Iterable[Report]:
    return [Report({"solved": float(solved), "cost_usd": cost})]


def silent(rng: np.random.Generator, action: str, solved: bool, cost: float) -> Iterable[Report]:
    """Failures of `small` are never reported; its costs are."""
    if action == "small" and not solved:
        return [Report({"cost_usd": cost})]
    return at_once(rng, action, solved, cost)


def late(rng: np.random.Generator, action: str, solved: bool, cost: float) -> Iterable[Report]:
    """Failures of `small` come six hours later."""
    if action == "small" and not solved:
        return [Report({"cost_usd": cost}), Report({"solved": 0.0}, 6 * HOUR)]
    return at_once(rng, action, solved, cost)


def corrected(rng: np.random.Generator, action: str, solved: bool, cost: float) -> Iterable[Report]:
    """Failures of `small` read 1 at first and 0 after two hours."""
    if action == "small" and not solved:
        return [
            Report({"solved": 1.0, "cost_usd": cost}, withdraw_after_s=2 * HOUR),
            Report({"solved": 0.0, "cost_usd": cost}, 2 * HOUR + 1.0),
        ]
    return at_once(rng, action, solved, cost)


def unpriced(rng: np.random.Generator, action: str, solved: bool, cost: float) -> Iterable[Report]:
    """The dearest tenth of the calls of `large` never report what they cost."""
    if action == "large" and cost > 0.056:
        return [Report({"solved": float(solved)})]
    return at_once(rng, action, solved, cost)


def some_unpriced(share: float) -> Outcome:
    """This share of the calls of either action reports no cost."""

    def report(rng: np.random.Generator, _action: str, solved: bool, cost: float) -> Iterable[Report]:
        known = {"solved": float(solved)}
        return [Report(known if rng.random() < share else known | {"cost_usd": cost})]

    return report


def one_side(large: Callable[[np.random.Generator], float]) -> Callable[[np.random.Generator, str], float]:
    """Costs of `small` as usual, those of `large` as given."""
    return lambda rng, action: large(rng) if action == "large" else COST["small"] * float(rng.uniform(0.5, 1.5))


MONEY: Sequence[MoneyWorld] = (
    MoneyWorld(name="normal", about="everything is reported at once", report=at_once),
    MoneyWorld(name="silent", about="failures of one action are never reported", report=silent),
    MoneyWorld(
        name="silent_declared",
        about="the same, with on_censored = 0 after an hour",
        report=silent,
        settings=REWARD + "on_censored = 0.0\nreward_after_s = 3600\n",
    ),
    MoneyWorld(name="late", about="failures of one action come 6 h late", report=late),
    MoneyWorld(name="corrected", about="failures read 1 at first, 0 after 2 h", report=corrected),
    MoneyWorld(
        name="missing_costs",
        about="the dearest 10% of one action's calls report no cost",
        report=unpriced,
        settings=REWARD + 'required = ["solved"]\n',
    ),
    MoneyWorld(
        name="one_percent",
        about="1% of the calls report no cost, by chance",
        report=some_unpriced(0.01),
        settings=REWARD + 'required = ["solved"]\n',
    ),
    MoneyWorld(
        name="both_missing",
        about="5% of each action's calls report no cost",
        report=some_unpriced(0.05),
        settings=REWARD + 'required = ["solved"]\n',
    ),
    MoneyWorld(
        name="both_missing_declared",
        about='30% of each action\'s, with missing = "at random"',
        report=some_unpriced(0.3),
        settings=REWARD + 'required = ["solved"]\nmissing = "at random"\n',
    ),
    MoneyWorld(
        name="pareto",
        about="Pareto costs of one action (index 1.3)",
        report=at_once,
        cost=one_side(lambda rng: 0.01 * float(rng.pareto(1.3) + 1.0)),
        mean_cost={"small": 0.01, "large": 0.01 * 1.3 / 0.3},
    ),
    MoneyWorld(
        name="pareto_hidden",
        about="the same, and the dearest 5% of its calls report none",
        report=lambda rng, action, solved, cost: (
            [Report({"solved": float(solved)})]
            if cost > 0.01 * 20.0 ** (1.0 / 1.3)
            else at_once(rng, action, solved, cost)
        ),
        settings=REWARD + 'required = ["solved"]\n',
        cost=one_side(lambda rng: 0.01 * float(rng.pareto(1.3) + 1.0)),
        mean_cost={"small": 0.01, "large": 0.01 * 1.3 / 0.3},
    ),
    MoneyWorld(
        name="pareto_25",
        about="the same, with index 2.5",
        report=at_once,
        cost=one_side(lambda rng: 0.024 * float(rng.pareto(2.5) + 1.0)),
    ),
    MoneyWorld(
        name="log_normal",
        about="log-normal costs of one action (σ = 2)",
        report=at_once,
        cost=one_side(lambda rng: 0.01 * float(np.exp(2.0 * rng.standard_normal()))),
        mean_cost={"small": 0.01, "large": 0.01 * float(np.exp(2.0))},
    ),
    MoneyWorld(
        name="log_normal_mild",
        about="log-normal costs of both actions (σ = .6)",
        report=at_once,
        cost=lambda rng, action: COST[action] * float(np.exp(0.6 * rng.standard_normal() - 0.18)),
    ),
    MoneyWorld(
        name="log_normal_one",
        about="the same with σ = 1",
        report=at_once,
        cost=lambda rng, action: COST[action] * float(np.exp(rng.standard_normal() - 0.5)),
    ),
    MoneyWorld(
        name="cut",
        about="costs beyond the range of the reward",
        report=at_once,
        cost=lambda rng, action: 100.0 * COST[action] * float(rng.uniform(0.5, 1.5)),
        mean_cost={action: 100.0 * cost for action, cost in COST.items()},
    ),
    MoneyWorld(name="free", about="every cost is 0", report=at_once, cost=lambda _rng, _action: 0.0),
    MoneyWorld(
        name="no_costs",
        about="nobody reports a cost",
        report=some_unpriced(1.0),
        settings=REWARD + 'required = ["solved"]\n',
    ),
    MoneyWorld(name="one_row", about="one decision", report=at_once, decisions=1),
)


def visits(world: MoneyWorld) -> Visits:
    def visit(rng: np.random.Generator, _: int) -> Visit:
        chance = float(rng.random())
        costs = {action: world.cost(rng, action) for action in COST}

        def report(action: str) -> Iterable[Report]:
            return world.report(rng, action, chance < QUALITY[action], costs[action])

        return Visit(QUALITY, report, details=context(rng))

    return visit


def sentence(world: MoneyWorld, seed: int) -> Sentence:
    """Serve, ask for the status, and compare its numbers with the truth."""
    with Client(ROUTER + world.settings, seed=seed, step_s=world.step_s) as client:
        client.serve(visits(world), world.decisions)
        client.wait(world.wait_s)
        client.project.settle(client.task)
        worth = client.project.status().tasks[0].worth
    assert worth is not None
    other = worth.against
    cost, policy = world.mean_cost or COST, {"small": 1.0 - SHARE, "large": SHARE}
    saved = quality = None
    if worth.saved is not None:
        truth = 1000.0 * (cost[other] - sum(policy[action] * cost[action] for action in policy))
        saved = worth.saved.low <= truth <= worth.saved.high
    kept = sum(policy[action] * QUALITY[action] for action in policy)
    if worth.ratio is not None:
        quality = worth.ratio.low <= kept / QUALITY[other] <= worth.ratio.high
    elif worth.gap is not None:
        quality = worth.gap.low <= kept - QUALITY[other] <= worth.gap.high
    return Sentence(saved=saved, quality=quality, text=worth.text)

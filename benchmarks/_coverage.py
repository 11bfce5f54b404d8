"""Do intervals hold the truth: worlds with five actions, of which an ε-greedy log rarely tries four.

Rewards are 0 or 1 (or a share of 1) with known means by situation, so that the value of every policy is exact. The
displayed intervals and the gate's bounds are those of `headway prove`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _contract import say

from headway.nouns.evidence import Estimate, Plan
from headway.prove.about import About
from headway.prove.display import Display
from headway.prove.evidence import evidence_of, log_proof
from headway.prove.log import Floats, Log

__all__ = ["FIVE_ARMS", "FiveArms", "agreement_coverage", "five_arm_coverage", "shares"]

SIZES = (200, 1_000, 5_000)
EPSILONS = (0.1, 0.3)
ARMS = tuple("abcde")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FiveArms:
    """Means [situation, arm]; the log's current policy takes arm a, and the candidate the arms of `choices`."""

    name: str
    means: Floats
    choices: tuple[int, ...]  # the candidate's arm in each situation
    graded: bool = False  # rewards between 0 and 1 with the same means

    def log(self, n: int, epsilon: float, rng: np.random.Generator) -> Log:
        situations, arms = self.means.shape
        situation = rng.integers(0, situations, n)
        baseline = np.tile(np.eye(arms)[0], (n, 1))
        logged = (1.0 - epsilon) * baseline + epsilon / arms
        action = (rng.random(n)[:, None] > np.cumsum(logged, axis=1)).sum(axis=1).clip(0, arms - 1)
        mean = self.means[situation, action]
        reward = rng.beta(3.0 * mean, 3.0 * (1.0 - mean)) if self.graded else (rng.random(n) < mean) * 1.0
        return Log.of(
            reward=reward,
            action=action,
            logged=logged,
            target=np.eye(arms)[np.array(self.choices)[situation]],
            baseline=baseline,
            features=np.concatenate([np.eye(situations)[situation], rng.standard_normal((n, 2))], axis=1),
            arms=ARMS,
        )

    def values(self, epsilon: float) -> dict[str, float]:
        """What every estimate of `from_log` should hold."""
        always = self.means.mean(axis=0)
        candidate = float(self.means[np.arange(len(self.means)), np.array(self.choices)].mean())
        return {
            "difference": candidate - float(always[0]),
            "candidate": candidate,
            "current": float(always[0]),
            "behaviour": float((1.0 - epsilon) * always[0] + epsilon * always.mean()),
            **{f"always {arm}": float(value) for arm, value in zip(ARMS, always, strict=True)},
        }


def _same(means: tuple[float, ...], situations: int = 3) -> Floats:
    return np.tile(means, (situations, 1))


FIVE_ARMS = (
    FiveArms(name="plain", means=_same((0.5, 0.55, 0.6, 0.65, 0.7)), choices=(4, 4, 4)),
    FiveArms(
        name="context",
        means=np.array([[0.55, 0.3, 0.75, 0.5, 0.4], [0.6, 0.7, 0.2, 0.45, 0.8], [0.45, 0.65, 0.5, 0.85, 0.35]]),
        choices=(2, 4, 3),
    ),
    FiveArms(
        name="part",
        means=np.array([[0.7, 0.6, 0.5, 0.6, 0.4], [0.5, 0.55, 0.45, 0.6, 0.5], [0.35, 0.5, 0.6, 0.4, 0.65]]),
        choices=(0, 0, 4),
    ),
    FiveArms(
        name="graded",
        means=np.array([[0.6, 0.45, 0.7, 0.3, 0.5], [0.4, 0.6, 0.5, 0.7, 0.55], [0.5, 0.3, 0.65, 0.6, 0.8]]),
        choices=(2, 3, 4),
        graded=True,
    ),
    FiveArms(name="success", means=_same((0.97, 0.96, 0.98, 0.97, 0.97)), choices=(2, 3, 1)),
    FiveArms(name="clicks", means=_same((0.03, 0.035, 0.025, 0.04, 0.03)), choices=(3, 3, 1)),
    FiveArms(name="disasters", means=_same((0.99, 0.99, 0.99, 0.985, 0.99)), choices=(4, 4, 4)),
)


def _held(log: Log, truth: dict[str, float], horizon: int | None) -> Iterator[tuple[str, bool]]:
    """Which displayed intervals, and which of the gate's bounds, hold the truth."""
    plan = None if horizon is None else Plan(horizon=horizon, uplift=0.1, power=0.8, alpha=0.04)
    about = About(task="route", candidate="router@1", against="fixed@0", plan=plan, reward_range=(0.0, 1.0))
    proof, shown = log_proof(about, hashing=False), Display(reward_range=about.reward_range)
    proof.update(log)
    if horizon is None:
        shown.add(log)
    evidence = evidence_of(proof, about, shown=shown)
    assert evidence.bounds is not None
    low, high = evidence.bounds
    yield ("sequence" if horizon is None else "horizon"), low <= truth["difference"]
    yield ("sequence worse" if horizon is None else "horizon worse"), truth["difference"] <= high
    if horizon is None:
        estimates: dict[str, Estimate] = {"difference": evidence.difference, **evidence.values}
        for name in truth.keys() & estimates.keys():
            estimate = estimates[name]
            yield name, estimate.low - 1e-12 <= truth[name] <= estimate.high + 1e-12


def shares(world: FiveArms, n: int, epsilon: float, replications: int, seed: int) -> dict[str, float]:
    """How often each interval and bound of one world holds the truth."""
    truth = world.values(epsilon)
    held: dict[str, list[bool]] = {}
    for replication in range(replications):
        rng = np.random.default_rng([seed, FIVE_ARMS.index(world), n, int(epsilon * 10), replication])
        log = world.log(n, epsilon, rng)
        for horizon in (None, n):
            for name, inside in _held(log, truth, horizon):
                held.setdefault(name, []).append(inside)
    return {name: float(np.mean(hits)) for name, hits in held.items()}


def five_arm_coverage(replications: int, seed: int) -> dict[str, float]:
    """The least coverage over all worlds, by size and ε: of the difference, of values, of constants, of the gate."""
    figures: dict[str, float] = {}
    for epsilon in EPSILONS:
        for n in SIZES:
            least: dict[str, float] = {}
            for world in FIVE_ARMS:
                held = shares(world, n, epsilon, replications, seed)
                say(f"  {world.name} {n:,} eps {epsilon}: " + ", ".join(f"{k} {v:.3f}" for k, v in held.items()))
                for name, value in held.items():
                    kind = _KINDS.get(name, "constants")
                    least[kind] = min(least.get(kind, 1.0), value)
            figures |= {f"coverage_five_{kind}_{n}_eps{epsilon:g}": value for kind, value in least.items()}
    figures["coverage_five_display"] = min(value for name, value in figures.items() if "gate" not in name)
    figures["coverage_five_gate"] = min(value for name, value in figures.items() if "gate" in name)
    return figures


AGREEING = (0.0, 0.5, 0.95)
UPLIFTS = (0.0, 0.05)
AGREEMENT_SIZES = (500, 4_000)


def agreeing_log(n: int, agree: float, uplift: float, rng: np.random.Generator) -> Log:
    """Two actions, drawn evenly; on a share of the rows, both policies give the same probabilities.

    Elsewhere the candidate moves .8 of the probability to an action that is worth `uplift` / .8 more, so that it earns
    `uplift` more per such row.
    """
    same = (rng.random(n) < agree)[:, None]
    action = rng.integers(0, 2, n)
    return Log.of(
        reward=(rng.random(n) < 0.5 + uplift / 0.8 * (action - 0.5)) * 1.0,
        action=action,
        logged=np.full((n, 2), 0.5),
        target=np.where(same, [0.9, 0.1], [0.1, 0.9]),
        baseline=np.tile([0.9, 0.1], (n, 1)),
        features=rng.standard_normal((n, 2)),
        arms=("a", "b"),
    )


def agreement_coverage(replications: int, seed: int) -> dict[str, float]:
    """How often the gate's bounds and the 95% interval hold the truth where policies agree on a share of the rows."""
    figures: dict[str, float] = {}
    for agree in AGREEING:
        for uplift in UPLIFTS:
            for n in AGREEMENT_SIZES:
                held: dict[str, list[bool]] = {}
                for replication in range(replications):
                    rng = np.random.default_rng([seed, int(100 * agree), int(100 * uplift), n, replication])
                    log = agreeing_log(n, agree, uplift, rng)
                    for horizon in (None, n):
                        for name, inside in _held(log, {"difference": (1.0 - agree) * uplift}, horizon):
                            held.setdefault(name, []).append(inside)
                found = {name: float(np.mean(hits)) for name, hits in held.items()}
                say(f"  agree {agree:.0%}, uplift {uplift:g}, {n:,}: {found}")
                figures |= {
                    f"coverage_agree{agree:g}_uplift{uplift:g}_{n}_{name.replace(' ', '_')}": share
                    for name, share in found.items()
                }
    shown = {name for name in figures if name.endswith("difference")}
    display, gate = min(figures[name] for name in shown), min(figures[name] for name in figures.keys() - shown)
    return figures | {"coverage_agree_display": display, "coverage_agree_gate": gate}


_KINDS = {
    "difference": "difference",
    "candidate": "values",
    "current": "values",
    "behaviour": "values",
    "sequence": "gate",
    "sequence worse": "gate",
    "horizon": "gate",
    "horizon worse": "gate",
}

"""When to escalate from a primary model to a fallback: a routing generator with exact values, for tests of proof.

    world = Escalation()
    rows = world.log(650, np.random.default_rng(42))      # the log of a router with known probabilities
    world.value(world.rules)                              # 0.918: exact, not sampled

The generator. Role uniform over eight; complexity c ~ U(0, 1); failures f uniform on {0, …, 4}. The behaviour policy
chooses the fallback with probability clip(.15 + .55c + .08f, .05, .95). The trajectory reward is

    r = clip(.85 - .45c - .08f + [fallback]·(.35c + .05f) + U(-.05, .05), 0, 1)

verification passes when r ≥ .5, and the reward is reward_v1's: r + .25 if it passed, r - .15 if not. Exact values:
always primary .484, behaviour .834, rules by role .884, c > .8 or f ≥ 2 .918, always fallback .990. One constant action
is best everywhere, so this world tests estimators, not learners.

`Escalation(price=PRICE)` charges 0.3 for the fallback; then the best action depends on the context and a learner has
something to learn: always primary .484, always fallback .690, c > .8 or f ≥ 2 .714, the better action each time .744.

Why values are exact: given c, f and the action, the mean over the noise has a closed form; the integral over c uses the
midpoint rule on 20,000 points (error below 1e-8 for the policies named here, below 2e-5 for other thresholds).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import errors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rule = Callable[[Ints, Floats, Ints], Floats]  # role, complexity, failures → P(fallback)

ACTIONS = ("primary", "fallback")
ROLES = (
    "planner",
    "architect",
    "coder",
    "debugger",
    "reviewer",
    "test_engineer",
    "documentation",
    "memory_optimizer",
)
FAILURES = 5
PRICE = 0.3  # of the cost-aware variant
_NOISE = 0.05
_PASSED, _FAILED, _PASS_MARK = 0.25, -0.15, 0.5
_GRID = 20_000  # midpoints over complexity


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLog:
    """A router's log: one entry per decision."""

    role: Ints
    complexity: Floats
    failures: Ints
    action: Ints  # 0 primary, 1 fallback
    propensity: Floats  # of the chosen action
    fallback: Floats  # P(fallback) under the behaviour policy
    trajectory: Floats
    passed: NDArray[np.bool_]
    reward: Floats

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, slots=True)
class Escalation:
    """The generator; `price` is what choosing the fallback costs in units of reward."""

    price: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.price <= 1.0:
            raise errors.InvalidInput(
                f"The price of the fallback is {self.price!r}, expected 0 to 1.", code="bad_world", hint=f"Try {PRICE}."
            )

    def contexts(self, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Ints]:
        """Role, complexity and failures of n decisions."""
        return rng.integers(len(ROLES), size=n), rng.random(n), rng.integers(FAILURES, size=n)

    def log(self, n: int, rng: np.random.Generator, behaviour: Rule | None = None) -> RouterLog:
        """n logged decisions of a router (by default the world's own behaviour policy)."""
        role, complexity, failures = self.contexts(n, rng)
        fallback = (behaviour or self.behaviour)(role, complexity, failures)
        action = (rng.random(n) < fallback).astype(np.int64)
        noise = rng.uniform(-_NOISE, _NOISE, size=n)
        trajectory = np.clip(_middle(complexity, failures, action) + noise, 0.0, 1.0)
        passed = trajectory >= _PASS_MARK
        return RouterLog(
            role=role,
            complexity=complexity,
            failures=failures,
            action=action,
            propensity=np.where(action == 1, fallback, 1.0 - fallback),
            fallback=fallback,
            trajectory=trajectory,
            passed=passed,
            reward=trajectory + np.where(passed, _PASSED, _FAILED) - self.price * action,
        )

    def expected(self, complexity: Floats, failures: Ints, action: int | Ints) -> Floats:
        """The exact mean reward of an action in given contexts."""
        chosen = np.broadcast_to(np.asarray(action, dtype=np.int64), np.shape(complexity))
        middle = _middle(complexity, failures, chosen)
        low, high = middle - _NOISE, middle + _NOISE
        # The mean of clip(x, 0, 1) over x ~ U(low, high), by its antiderivative; then the share at or over the mark.
        mean = (_clip_integral(high) - _clip_integral(low)) / (2.0 * _NOISE)
        passes = np.clip((high - _PASS_MARK) / (2.0 * _NOISE), 0.0, 1.0)
        result: Floats = mean + _FAILED + (_PASSED - _FAILED) * passes - self.price * chosen
        return result

    def value(self, policy: Rule) -> float:
        """The exact value of a policy that gives P(fallback) for role, complexity and failures."""
        complexity = (np.arange(_GRID) + 0.5) / _GRID
        total = 0.0
        for failures in range(FAILURES):
            count = np.full(_GRID, failures, dtype=np.int64)
            primary = self.expected(complexity, count, 0)
            gain = self.expected(complexity, count, 1) - primary
            shares = [policy(np.full(_GRID, role, dtype=np.int64), complexity, count) for role in range(len(ROLES))]
            total += float((primary + gain * np.mean(shares, axis=0)).mean())
        return total / FAILURES

    def optimum(self) -> float:
        """The exact value of the better action in every context."""
        return self.value(self.best)

    def best(self, role: Ints, complexity: Floats, failures: Ints) -> Floats:
        """The better action: a function of complexity and failures only."""
        del role
        better = self.expected(complexity, failures, 1) > self.expected(complexity, failures, 0)
        return better.astype(np.float64)

    @staticmethod
    def behaviour(role: Ints, complexity: Floats, failures: Ints) -> Floats:
        """The logging policy: P(fallback) = clip(.15 + .55c + .08f, .05, .95)."""
        del role
        share: Floats = np.clip(0.15 + 0.55 * complexity + 0.08 * failures, 0.05, 0.95)
        return share

    @staticmethod
    def always_primary(role: Ints, complexity: Floats, failures: Ints) -> Floats:
        del role, failures
        return np.zeros(len(complexity))

    @staticmethod
    def always_fallback(role: Ints, complexity: Floats, failures: Ints) -> Floats:
        del role, failures
        return np.ones(len(complexity))

    @staticmethod
    def rules(role: Ints, complexity: Floats, failures: Ints) -> Floats:
        """task_complexity_score > 0.8 or primary_failure_count >= 2, whatever the role."""
        del role
        return ((complexity > 0.8) | (failures >= 2)).astype(np.float64)

    @staticmethod
    def role_rules(role: Ints, complexity: Floats, failures: Ints) -> Floats:
        """Planner and architect: c > .8 or f ≥ 2; debugger: f ≥ 1; other roles: f ≥ 2."""
        wary = (role == ROLES.index("planner")) | (role == ROLES.index("architect"))
        least = np.where(role == ROLES.index("debugger"), 1, 2)
        escalates: Floats = ((failures >= least) | (wary & (complexity > 0.8))).astype(np.float64)
        return escalates


def _middle(complexity: Floats, failures: Ints, action: Ints) -> Floats:
    help_ = action * (0.35 * complexity + 0.05 * failures)
    middle: Floats = 0.85 - 0.45 * complexity - 0.08 * failures + help_
    return middle


def _clip_integral(x: Floats) -> Floats:
    """∫ clip(t, 0, 1) dt up to x, zero at 0."""
    inside = np.clip(x, 0.0, 1.0)
    result: Floats = 0.5 * inside * inside + np.maximum(x - 1.0, 0.0)
    return result


def priced() -> Escalation:
    """The cost-aware variant: its optimum depends on the context."""
    return Escalation(PRICE)

"""Routing learned from logged decisions of worlds whose values are known exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headway.kits.demo.escalation import ACTIONS, FAILURES, ROLES, Escalation
from headway.kits.demo.synth import synthesise
from headway.nouns.records import Candidate, Decision, Settled, Situation
from headway.project import Project
from tests.families import build, learner
from tests.learn.logs import MemoryLog

pytestmark = pytest.mark.engines("sqlite", why="it is about learning, not about the store")
# The static table by role: planner and architect at c > .8 or f ≥ 2, the debugger at f ≥ 1, all others at f ≥ 2.
TABLE = """
[tasks.route]
actions = ["primary", "fallback"]
reward = "reward_v1"
family = "cql"
""" + "".join(
    f'[tasks.route.roles.{role}]\nprimary = "primary"\nfallback = "fallback"\ntriggers = [{triggers}]\n'
    for role in ROLES
    for triggers in [
        '"task_complexity_score > 0.8", "primary_failure_count >= 2"'
        if role in ("planner", "architect")
        else f'"primary_failure_count >= {1 if role == "debugger" else 2}"'
    ]
)
CANDIDATES = tuple(Candidate(name) for name in ACTIONS)
PRICED = Escalation(price=0.4)


def exact(world: Escalation, policy: Any, points: int = 100) -> float:
    """The value of a policy, by midpoints over complexity in every role and for every number of failures."""
    complexity = (np.arange(points) + 0.5) / points
    total = 0.0
    for role in ROLES:
        for failures in range(FAILURES):
            situations = [situation(role, float(value), failures) for value in complexity]
            fallback = policy.opinions(situations, CANDIDATES, range(points)).probabilities[:, 1]
            many = np.full(points, failures)
            primary, other = (world.expected(complexity, many, action) for action in (0, 1))
            total += float((primary + fallback * (other - primary)).mean())
    return total / len(ROLES) / FAILURES


def situation(role: str, complexity: float, failures: int) -> Situation:
    state = {"task_complexity_score": complexity, "primary_failure_count": failures}
    return Situation(task="route", state=state, role=role)


def beats_the_table(opened: Callable[..., Project], seed: int) -> None:
    project = opened(TABLE, seed=None)
    synthesise(project, "route", rows=3000, seed=seed)
    policy = project.learn("route", seed=seed, steps=1000)
    verdict = project.prove(policy)
    assert verdict.passed, verdict.reasons
    assert project.promote(policy, because=verdict).policy == policy
    settings = project.settings.task("route")
    ref, digest = project.servings.resolve(settings, policy)
    built = project.servings.policy("route", project.servings.body(settings), ref, digest)
    assert exact(Escalation(), built) >= Escalation().value(Escalation.role_rules) >= 0.88


def finds_the_optimum(seed: int, knobs: dict[str, Any]) -> None:
    log = PRICED.log(4000, np.random.default_rng(seed))
    rows = []
    for number in range(len(log)):
        action = int(log.action[number])
        share = float(log.fallback[number])
        decision = Decision(
            id=f"dec_{number}",
            situation=situation(ROLES[log.role[number]], float(log.complexity[number]), int(log.failures[number])),
            candidates=CANDIDATES,
            probabilities=(1.0 - share, share),
            action=ACTIONS[action],
            propensity=share if action else 1.0 - share,
            policy="elsewhere@0",
            policy_hash="",
            config_hash="",
            encoder="",
            exploration="",
            seed=number,
            at=float(number),
            source="synthetic",
        )
        reward = float(log.reward[number])
        rows.append(Settled(seq=number + 1, decision=decision, reward=reward, status="rewarded"))
    learned = learner("cql").learn(MemoryLog(rows), knobs, seed=seed)
    policy = build(learned.family, learned.knobs, learned.tensors, learned.extra)
    assert exact(PRICED, policy) >= 0.97 * PRICED.optimum()


@pytest.mark.slow
def test_a_learned_policy_is_better_than_the_table_and_passes_the_gate(opened: Callable[..., Project]) -> None:
    beats_the_table(opened, 42)


def test_a_context_dependent_best_choice_is_learned() -> None:
    constant = max(PRICED.value(PRICED.always_primary), PRICED.value(PRICED.always_fallback))
    assert constant <= 0.9 * PRICED.optimum()
    finds_the_optimum(0, {"steps": 1500})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_learned_policy_beats_the_table_on_every_seed(opened: Callable[..., Project], seed: int) -> None:
    beats_the_table(opened, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_learning_finds_the_optimum_on_every_seed(seed: int) -> None:
    finds_the_optimum(seed, {"steps": 1500})

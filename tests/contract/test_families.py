"""Every family keeps the policy contract, and learns the identity world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from headway.decide.acting import Pipeline
from headway.decide.baselines import baseline
from headway.nouns.kit import catalogue
from headway.nouns.protocols import Policy
from tests.contract.policy_contract import policy_contract, rebuilt
from tests.families import build, encoder, learner
from tests.learn.logs import ARMS, CANDIDATES, WORLDS, Log, identity

TEXT = encoder()


@dataclass(frozen=True)
class Family:
    """One line per family and per way of building it that acts differently."""

    name: str
    knobs: dict[str, Any]
    least: float  # share of the identity world that it must get right, greedily

    def __str__(self) -> str:
        return "-".join([self.name, *(str(each) for each in self.knobs.values())])


FAMILIES = [
    Family("bandit", {}, 0.99),
    Family("bandit", {"model": "linear", "explore": "thompson"}, 0.99),
    Family("bandit", {"model": "linear", "explore": "softmax", "prior": "pooled"}, 0.99),
    Family("bandit", {"model": "clusters", "explore": "epsilon", "clusters": 16}, 0.8),
    Family("bandit", {"model": "clusters", "explore": "greedy"}, 0.8),
    Family("outcome", {}, 0.99),
    Family("outcome", {"ridge": 1.0, "share": 1.0, "explore": "thompson"}, 0.99),
    Family("cql", {"steps": 600}, 0.99),
    Family("cql", {"steps": 400, "members": 3, "pessimism": 1.0, "alpha": 0.1, "explore": "softmax"}, 0.9),
    Family("clone", {"steps": 100}, 0.0),  # this log was made at random: there is nothing to copy
    Family("clone", {"steps": 100, "explore": "policy", "hidden": (16,)}, 0.0),
    Family("actor_critic", {"explore": "greedy", "epochs": 8}, 0.99),
    Family("actor_critic", {"hidden": (32,), "activation": "tanh", "norm": False, "rate": 3e-3}, 0.9),
]


def test_every_registered_family_is_under_contract() -> None:
    assert {each.name for each in FAMILIES} == set(catalogue().families())


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("world", list(WORLDS))
def test_a_learned_policy_keeps_the_contract_and_knows_the_identity_world(family: Family, world: str) -> None:
    rows = identity(world, 1200)
    learned = learner(family.name, encoder=TEXT).learn(Log(rows), family.knobs, seed=7)
    policy = build(learned.family, learned.knobs, learned.tensors, learned.extra, TEXT)
    situations = [each.decision.situation for each in rows[:40]]
    policy_contract(policy, rebuilt(learned, TEXT), situations, CANDIDATES)

    fresh = [WORLDS[world](number % len(ARMS), number + 5000) for number in range(300)]
    acting = Pipeline(policy, floor=0.0, explore="greedy").distributions(fresh, CANDIDATES, range(300))
    right = acting[np.arange(300), np.arange(300) % len(ARMS)]
    assert float(right.mean()) >= family.least


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_learning_twice_gives_the_same_tensors(family: Family) -> None:
    rows = identity("text", 600)
    one, other = (learner(family.name, encoder=TEXT).learn(Log(rows), family.knobs, seed=7) for _ in range(2))
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.tensors.items():
        assert np.array_equal(tensor, other.tensors[name])
    assert (one.knobs, one.metrics, one.baselines) == (other.knobs, other.metrics, other.baselines)


RULES = [{"when": "x0 > 0.5", "use": "blue"}, {"when": "x1 > 0.5", "use": "green"}]


@pytest.mark.parametrize(
    "policy",
    [
        baseline("uniform@0"),
        baseline("fixed@0", arm="green"),
        baseline("rules@0", rules=RULES, default="red", actions=ARMS, known=["x0", "x1", "x2"]),
    ],
    ids=lambda each: each.family,
)
def test_a_built_in_policy_keeps_the_contract(policy: Policy) -> None:
    situations = [each.decision.situation for each in identity("numbers", 40)]
    policy_contract(policy, policy, situations, CANDIDATES)

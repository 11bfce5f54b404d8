"""Every family satisfies the policy contract and learns the identity world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headway.decide.baselines import baseline
from headway.nouns.kit import catalogue
from headway.nouns.protocols import Policy
from headway.testing import ARMS, CANDIDATES, WORLDS, identity, learner_contract, policy_contract
from tests.families import encoder

TEXT = encoder()


@dataclass(frozen=True)
class LearnedAs:
    """One line per family and per variant that acts differently."""

    name: str
    knobs: dict[str, Any]
    least: float  # required share of correct greedy actions in the identity world
    slow: tuple[str, ...] = ()  # the worlds in which it is a slow test

    def __str__(self) -> str:
        return "-".join([self.name, *(str(value) for value in self.knobs.values())])


FAMILIES = [
    LearnedAs("bandit", {}, 0.99),
    LearnedAs("bandit", {"model": "linear", "explore": "thompson"}, 0.99),
    LearnedAs("bandit", {"model": "linear", "explore": "softmax", "prior": "pooled"}, 0.99),
    LearnedAs("bandit", {"model": "clusters", "explore": "epsilon", "clusters": 16}, 0.8),
    LearnedAs("bandit", {"model": "clusters", "explore": "greedy"}, 0.8),
    LearnedAs("outcome", {}, 0.99),
    LearnedAs("outcome", {"ridge": 1.0, "share": 1.0, "explore": "thompson"}, 0.99),
    LearnedAs("cql", {"steps": 600}, 0.99),
    LearnedAs(
        "cql", {"steps": 400, "members": 3, "pessimism": 1.0, "alpha": 0.1, "explore": "softmax"}, 0.9, slow=("text",)
    ),
    LearnedAs("clone", {"steps": 100}, 0.0),  # the log is random: there is nothing to copy
    LearnedAs("clone", {"steps": 100, "explore": "policy", "hidden": (16,)}, 0.0),
    LearnedAs("actor_critic", {"explore": "greedy", "epochs": 8}, 0.99, slow=("text",)),
    LearnedAs("ranker", {"architecture": "linear"}, 0.99),
    LearnedAs("actor_critic", {"hidden": (32,), "activation": "tanh", "norm": False, "rate": 3e-3}, 0.9),
]


@pytest.mark.kits("*")
def test_every_registered_family_is_tested_by_the_contract() -> None:
    factored = set(catalogue().families("factored"))  # theirs is `heads_contract`: tests/kits/grow/test_network.py
    replies = set(catalogue().families("reply"))  # they write texts: tests/kits/reply
    assert {family.name for family in FAMILIES} == set(catalogue().families()) - factored - replies


@pytest.mark.parametrize(
    ("world", "family"),
    [
        pytest.param(world, family, id=f"{world}-{family}", marks=[pytest.mark.slow] if world in family.slow else [])
        for world in WORLDS
        for family in FAMILIES
    ],
)
@pytest.mark.kits("*")
def test_a_family_satisfies_the_contract_and_learns_the_identity_world(family: LearnedAs, world: str) -> None:
    twice, least = world == "text", family.least
    learner_contract(catalogue(), family.name, family.knobs, world=world, encoder=TEXT, least=least, twice=twice)


RULES = [{"when": "x0 > 0.5", "use": "blue"}, {"when": "x1 > 0.5", "use": "green"}]


@pytest.mark.parametrize(
    "policy",
    [
        baseline("uniform@0"),
        baseline("fixed@0", arm="green"),
        baseline("rules@0", rules=RULES, default="red", actions=ARMS),
    ],
    ids=lambda policy: policy.family,
)
def test_a_built_in_policy_satisfies_the_contract(policy: Policy) -> None:
    situations = [settled.decision.situation for settled in identity("numbers", 40)]
    policy_contract(policy, policy, situations, CANDIDATES)

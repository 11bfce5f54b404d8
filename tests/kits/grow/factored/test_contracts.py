"""Factored policies and worlds satisfy their contracts, which detect violations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.grow.factored.pipeline import UniformHeads
from headway.kits.grow.factored.space import FactoredOpinions, Observations
from headway.nouns.errors import InvalidInput
from headway.nouns.kit import catalogue, load
from headway.testing import factored_world_contract, heads_contract
from tests.kits.grow.factored.tally_kit import Countdown, Tally
from tests.kits.grow.factored.test_space import SPACE


def test_policies_satisfy_the_contract() -> None:
    heads_contract(UniformHeads(SPACE), UniformHeads(SPACE))
    heads_contract(Tally(SPACE, 2.0), Tally(SPACE, 2.0))


class BadTally:
    """A policy that is wrong in one way."""

    family, memory_width, features, indices, space = "bad", 2, 2, (3,), SPACE

    def __init__(self, wrong: str) -> None:
        self.wrong, self._good, self._asked = wrong, Tally(SPACE, 2.0), 0

    def scores(self, observations: Observations, memory: Any) -> FactoredOpinions:
        self._asked += 1
        opinions = self._good.scores(observations, memory)
        scores, kept, value = dict(opinions.scores), opinions.memory, opinions.value
        match self.wrong:
            case "remembers":
                kept = kept + self._asked
            case "batch":
                scores["op"] = scores["op"] - scores["op"].mean()
            case "changes":
                memory += 1.0
            case "nan":
                scores["slot"] = scores["slot"] * np.nan
            case "shape":
                kept = kept[:, :1]
            case "head":
                del scores["speed"]
        return FactoredOpinions(scores, kept, value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("remembers", "asked again, it differs"),
        ("batch", "a row alone differs"),
        ("changes", "changes what it is given"),
        ("nan", "not a finite number"),
        ("shape", "memory is"),
        ("head", "scores are of"),
    ],
)
def test_a_policy_that_breaks_the_contract_is_detected(wrong: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        heads_contract(BadTally(wrong), BadTally(wrong))


def test_a_world_satisfies_the_contract() -> None:
    factored_world_contract(Countdown)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("seed", "the seed changes nothing"),
        ("reward", "a reward is not a finite number"),
        ("restore", "a restored world continues differently"),
        ("final", "final observations"),
    ],
)
def test_a_world_that_breaks_the_contract_is_detected(wrong: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        factored_world_contract(lambda *, count: Countdown(count, wrong))


def test_a_world_whose_masks_leave_nothing_is_detected() -> None:
    with pytest.raises(InvalidInput, match="allows nothing"):
        factored_world_contract(lambda *, count: Countdown(count, "masks"))


@pytest.mark.parametrize("name", sorted(set(catalogue().all("spaces")) & set(catalogue().all("worlds"))))
def test_the_heads_that_a_kit_names_are_those_of_its_world(name: str) -> None:
    world = load(catalogue().all("worlds")[name])(count=1)
    assert world.space == load(catalogue().all("spaces")[name])
    world.close()

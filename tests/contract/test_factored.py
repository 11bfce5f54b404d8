"""Factored policies and worlds satisfy their contracts, which detect violations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.decide.factored import UniformHeads
from headway.nouns.errors import InvalidInput
from headway.nouns.factored import Factored, FactoredOpinions, Head, Observations
from headway.testing import factored_world_contract, heads_contract
from tests.nouns.test_factored import SPACE
from tests.tally_kit import Tally


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


class Countdown:
    """Copies that count down from a random number; `wrong` names what is broken."""

    space = Factored((Head("op", ("hold", "jump")), Head("far", ("1", "2", "3"))), {"hold": ()}, ("far",))
    features, indices = 2, (4,)

    def __init__(self, count: int, wrong: str = "") -> None:
        self.count, self.wrong = count, wrong
        self.rng = np.random.default_rng(0)

    def reset(self, seed: int) -> tuple[Observations, dict[str, Any]]:
        self.rng = np.random.default_rng(0 if self.wrong == "seed" else seed)
        self.left = self.rng.integers(3, 9, size=self.count)
        return self._seen(), self._masks()

    def step(self, actions: Any) -> Any:
        self.left = self.left - 1 - np.where(actions[:, 0] == 1, actions[:, 1], 0)
        ended = self.left <= 0
        final = Observations(self._seen().features[ended], self._seen().indices[ended])
        self.left = np.where(ended, self.rng.integers(3, 9, size=self.count), self.left)
        rewards = np.full(self.count, np.nan) if self.wrong == "reward" else -np.ones(self.count)
        info = {"final": final if self.wrong != "final" else self._seen()}
        truncated = np.zeros(self.count, dtype=bool)
        return SimpleNamespace(
            observations=self._seen(), masks=self._masks(), rewards=rewards, terminated=ended, truncated=truncated,
            info=info,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        return {"left": self.left.copy(), "rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> tuple[Observations, dict[str, Any]]:
        self.left = state["left"].copy()
        if self.wrong != "restore":
            self.rng.bit_generator.state = state["rng"]
        return self._seen(), self._masks()

    def close(self) -> None: ...

    def _seen(self) -> Observations:
        return Observations(np.stack([self.left, self.left % 2], axis=1) / 8.0, self.left[:, None] % 4)

    def _masks(self) -> dict[str, Any]:
        far = np.ones((self.count, 2, 3), dtype=bool)
        far[:, 1, 2] = self.left > 3
        if self.wrong == "masks":
            far[:, 1] = False
        return {"far": far}


def test_a_world_satisfies_the_contract() -> None:
    factored_world_contract(Countdown)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("seed", "the seed changes nothing"),
        ("reward", "a reward is not a finite number"),
        ("restore", "restored, it goes on elsewhere"),
        ("final", "final observations"),
    ],
)
def test_a_world_that_breaks_the_contract_is_detected(wrong: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        factored_world_contract(lambda *, count: Countdown(count, wrong))


def test_a_world_whose_masks_leave_nothing_is_detected() -> None:
    with pytest.raises(InvalidInput, match="allows nothing"):
        factored_world_contract(lambda *, count: Countdown(count, "masks"))

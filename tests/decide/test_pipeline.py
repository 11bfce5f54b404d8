"""The pipeline: its order, the confidence floor, the canary, stickiness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from headway.decide.acting import Explorer, Pipeline, sticky
from headway.decide.baselines import baseline
from headway.nouns.errors import Conflict, Damaged, InvalidInput, InvalidSettings
from headway.nouns.protocols import Floats, Opinions, Policy
from headway.nouns.records import Candidate, Decision, Situation

ARMS = tuple(Candidate(name) for name in ("a", "b", "c", "d"))
HERE = Situation(task="t", state={"sure": 0.9})


@dataclass(frozen=True)
class Table:
    """A policy with the same prediction for every situation, and the confidence in its state."""

    mean: tuple[float, ...] = (0.1, 0.4, 0.2, 0.3)
    std: tuple[float, ...] | None = (0.1, 0.1, 0.1, 0.1)
    probabilities: tuple[float, ...] = (0.0, 1.0, 0.0, 0.0)
    family: str = "table"

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        def cut(values: tuple[float, ...]) -> Floats:
            row = np.array([values["abcd".index(candidate.name)] for candidate in candidates])
            return np.tile(row, (len(situations), 1))

        kept = cut(self.probabilities)
        total = float(kept[0].sum())
        return Opinions(
            kept / total if total else np.full_like(kept, 1 / len(candidates)),
            np.array([situation.state.get("sure", 1.0) for situation in situations]),
            cut(self.mean),
            None if self.std is None else cut(self.std),
        )


def test_the_order_is_policy_then_explorer_then_floor_then_canary() -> None:
    canary = baseline("fixed@0", arm="d")
    pipeline = Pipeline(
        Table(), floor=0.04, explore=Explorer(kind="epsilon", share=0.2), canary=canary, canary_share=0.25
    )
    acted = pipeline.act(HERE, ARMS, 1)
    explored = np.array([0.05, 0.85, 0.05, 0.05])
    current = 0.96 * explored + 0.01
    other = 0.96 * np.array([0.05, 0.05, 0.05, 0.85]) + 0.01
    assert acted.probabilities == pytest.approx(0.75 * current + 0.25 * other, abs=1e-15)
    assert acted.canary == pytest.approx(other, abs=1e-15)
    assert acted.exploration == "epsilon, floor 0.04, canary 0.25"


@pytest.mark.parametrize("kind", ["greedy", "softmax", "squarecb", "thompson"])
def test_an_explorer_that_needs_predictions_changes_nothing_without_them(kind: str) -> None:
    rules = baseline("fixed@0", arm="c")
    plain = Pipeline(rules, floor=0.0, explore=kind).act(HERE, ARMS, 1)
    assert plain.probabilities.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert plain.exploration == "policy"
    explored = Pipeline(Table(), floor=0.0, explore=kind).act(HERE, ARMS, 1)
    assert explored.exploration == kind
    assert explored.probabilities.argmax() == 1


@pytest.mark.parametrize(("sure", "branch", "chosen"), [(0.7, "policy", 1), (0.6999, "fallback", 0)])
def test_the_confidence_floor_applies_below_its_value_and_not_at_it(sure: float, branch: str, chosen: int) -> None:
    situation = Situation(task="t", state={"sure": sure})
    rules = baseline("rules@0", rules=[{"when": "sure < 0.7", "use": "a"}], default="d")
    pipeline = Pipeline(Table(), fallback=rules, confidence_floor=0.7, floor=0.0)
    acted = pipeline.act(situation, ARMS, 3)
    assert (acted.branch, acted.index) == (branch, chosen)
    assert acted.opinion.probabilities.tolist() == [0.0, 1.0, 0.0, 0.0]  # the policy's own is kept for `explain`
    assert ("rule 1" in acted.why) is (branch == "fallback")
    assert "0.7" in acted.why
    assert np.array_equal(pipeline.distributions([situation], ARMS, [3])[0], acted.probabilities)


def test_without_a_fallback_the_policy_decides_at_any_confidence() -> None:
    assert Pipeline(Table(), confidence_floor=1.0).act(HERE, ARMS, 1).branch == "policy"


def test_propensities_and_assignments_match_the_frequencies() -> None:
    pipeline = Pipeline(Table(), floor=0.2, canary=baseline("fixed@0", arm="d"), canary_share=0.3)
    draws = [pipeline.act(HERE, ARMS, seed) for seed in range(8000)]
    counts = np.bincount([draw.index for draw in draws], minlength=4) / len(draws)
    truth = draws[0].probabilities
    assert (np.abs(counts - truth) <= 5.5 * np.sqrt(truth * (1 - truth) / len(draws))).all()
    share = sum(draw.assigned == "canary" for draw in draws) / len(draws)
    assert abs(share - 0.3) <= 5.5 * np.sqrt(0.3 * 0.7 / len(draws))
    # Within the canary's share, actions follow the canary's own distribution.
    own = np.bincount([draw.index for draw in draws if draw.assigned == "canary"], minlength=4)
    assert abs(own[3] / own.sum() - 0.85) <= 5.5 * np.sqrt(0.85 * 0.15 / own.sum())
    assert {draw.assigned for draw in draws} == {"current", "canary"}
    assert Pipeline(Table()).act(HERE, ARMS, 1).assigned == ""


def test_a_canary_without_a_share_is_not_evaluated() -> None:
    quiet = Pipeline(Table(), canary=baseline("fixed@0", arm="d"), canary_share=0.0)
    assert np.array_equal(quiet.act(HERE, ARMS, 5).probabilities, Pipeline(Table()).act(HERE, ARMS, 5).probabilities)


@pytest.mark.parametrize(
    "pipeline",
    [
        Pipeline(Table()),
        Pipeline(Table(), explore="thompson", floor=0.1),
        Pipeline(Table(std=None), explore="softmax"),
        Pipeline(Table(), fallback=baseline("uniform@0"), confidence_floor=0.5, explore="squarecb"),
        Pipeline(Table(), canary=Table(mean=(1.0, 0.0, 0.0, 0.0)), canary_share=0.4, explore="thompson"),
        Pipeline(Table(), canary=Pipeline(Table(), floor=0.5), canary_share=0.4),
    ],
)
def test_a_batch_of_rows_equals_row_by_row(pipeline: Pipeline) -> None:
    situations = [Situation(task="t", state={"sure": (i % 10) / 10}) for i in range(30)]
    sets = [ARMS, ARMS[:2], (ARMS[3], ARMS[0]), ARMS[1:2]]
    asked = [sets[i % 4] for i in range(30)]
    probabilities = pipeline.distributions(situations, asked, range(30))
    for i, (situation, candidates) in enumerate(zip(situations, asked, strict=True)):
        alone = pipeline.act(situation, candidates, i)
        assert np.array_equal(probabilities[i, : len(candidates)], alone.probabilities)
        assert abs(float(probabilities[i].sum()) - 1.0) < 1e-12


@pytest.mark.parametrize("explorer_kind", ["policy", "softmax"])
def test_a_batch_of_draws_equals_acting_one_by_one(explorer_kind: str) -> None:
    pipeline = Pipeline(
        Table(),
        fallback=baseline("fixed@0", arm="c"),
        confidence_floor=0.5,
        explore=explorer_kind,
        canary=baseline("fixed@0", arm="d"),
        canary_share=0.3,
    )
    situations = [Situation(task="t", state={"sure": (number % 10) / 10}) for number in range(40)]
    seeds = list(range(40))
    alone = [pipeline.act(situation, ARMS, seed) for situation, seed in zip(situations, seeds, strict=True)]
    together = pipeline.draw(situations, ARMS, seeds)
    for one, draw in zip(alone, together, strict=True):
        assert draw.probabilities == tuple(one.probabilities.tolist())
        assert (draw.chosen, draw.propensity) == (one.index, one.propensity)
        assert (draw.exploration, draw.assigned) == (one.exploration, one.assigned)
    assert {one.branch for one in alone} == {"policy", "fallback"}
    assert {draw.assigned for draw in together} == {"current", "canary"}


def test_candidates_with_equal_names_but_different_features_are_not_batched_together() -> None:
    cheap, dear = (Candidate("a", {"cost": 1.0}), ARMS[1]), (Candidate("a", {"cost": 2.0}), ARMS[1])

    @dataclass(frozen=True)
    class ByCost:
        family: str = "by_cost"

        def opinions(
            self,
            situations: Sequence[Situation],
            candidates: Sequence[Candidate],
            seeds: Sequence[int],
            *,
            confidence: bool = True,
            std: bool = False,
        ) -> Opinions:
            first = 1.0 if candidates[0].features["cost"] == 1.0 else 0.0
            return Opinions(np.array([[first, 1.0 - first]] * len(situations)))

    probabilities = Pipeline(ByCost(), floor=0.0).distributions([HERE, HERE], [cheap, dear], [1, 2])
    assert probabilities.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_sticky_decisions_repeat_the_first_draw() -> None:
    first = _decision()
    later = sticky(first, (ARMS[2], ARMS[1]))
    assert (later.chosen, later.propensity, later.exploration) == (1, 0.7, "policy")
    assert later.probabilities == (0.0, 0.7)
    with pytest.raises(Conflict) as error:
        sticky(first, (ARMS[0],))
    assert error.value.code == "sticky_gone"


def _decision() -> Decision:
    return Decision(
        id="dec_1",
        situation=HERE,
        candidates=ARMS[:2],
        probabilities=(0.3, 0.7),
        action="b",
        propensity=0.7,
        policy="bandit@4f2a",
        policy_hash="",
        config_hash="",
        encoder="",
        exploration="policy",
        seed=1,
        at=0.0,
    )


@pytest.mark.parametrize("bad", [(0.5, 0.6, 0.0, 0.0), (float("nan"), 1.0, 0.0, 0.0), (1.5, -0.5, 0.0, 0.0)])
def test_a_policy_that_gives_no_distribution_does_not_act(bad: tuple[float, ...]) -> None:
    @dataclass(frozen=True)
    class Broken:
        family: str = "broken"

        def opinions(
            self,
            situations: Sequence[Situation],
            candidates: Sequence[Candidate],
            seeds: Sequence[int],
            *,
            confidence: bool = True,
            std: bool = False,
        ) -> Opinions:
            return Opinions(np.array([bad] * len(situations)))

    policy: Policy = Broken()
    with pytest.raises(Damaged) as error:
        Pipeline(policy).act(HERE, ARMS, 1)
    assert error.value.code == "bad_distribution"
    for rows in (1, 2):
        with pytest.raises(Damaged):
            Pipeline(policy).distributions([HERE] * rows, ARMS, range(rows))


def test_invalid_settings_and_shapes_are_refused() -> None:
    for wrong in ({"floor": 1.5}, {"canary_share": -0.1}, {"confidence_floor": float("nan")}):
        with pytest.raises(InvalidSettings) as error:
            Pipeline(Table(), **wrong)  # type: ignore[arg-type]
        assert error.value.code == "bad_share"
    with pytest.raises(InvalidSettings, match="thompson"):
        Explorer.of("tompson")
    with pytest.raises(InvalidSettings, match="share"):
        Explorer.of({"kind": "epsilon", "shar": 0.1})
    with pytest.raises(InvalidSettings):
        Explorer(kind="softmax", temperature=0.0)
    pipeline = Pipeline(Table())
    for ask in (
        lambda: pipeline.act(HERE, (), 1),
        lambda: pipeline.act(HERE, ARMS, 1, allowed=[True]),
        lambda: pipeline.act(HERE, ARMS, 1, allowed=[False] * 4),
        lambda: pipeline.distributions([HERE], ARMS, [1, 2]),
        lambda: pipeline.distributions([HERE, HERE], [ARMS], [1, 2]),
    ):
        with pytest.raises(InvalidInput):
            ask()
    assert pipeline.distributions([], ARMS, []).shape == (0, 0)

"""The bandit policy: exact sums, confidence, costs, new and withdrawn arms, damaged bundles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from headway.decide.bandit import Bandit
from headway.decide.chooser import confidences, two_best
from headway.decide.posteriors import Linear, rounded
from headway.encode.state import Features
from headway.learn.bandit import BanditLearner
from headway.nouns.errors import Damaged, HeadwayError, UnknownName
from headway.nouns.protocols import Learned
from headway.nouns.records import Candidate, Situation
from tests.families import build
from tests.learn.logs import CANDIDATES, MemoryLog, identity
from tests.opinions import opinion_on


@given(st.integers(1, 70), st.integers(2, 300), st.integers(0, 2**31))
@settings(max_examples=40)
def test_scores_do_not_depend_on_the_order_of_addition_or_on_the_batch(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.rint(np.clip(rng.normal(size=(rows, width)) * 3, -8, 8) / Features.GRID) * Features.GRID
    half = rng.normal(size=(4, width, width))
    model = Linear(rounded(rng.normal(size=(4, width)) * 7), rounded(half @ half.transpose(0, 2, 1)), np.array([0.3]))
    mean, std = model.mean(x, None), model.std(x, range(3))
    columns = np.array([3, 1])
    for row in range(rows):
        one = x[row : row + 1]
        assert np.array_equal(model.mean(one, None)[0], mean[row])
        assert np.array_equal(model.std(one, range(3))[0], std[row])
        assert np.array_equal(model.mean(one, columns)[0], model.mean(x, columns)[row])
        assert model.std(one, [2, 0])[0].tolist() == [std[row, 2], std[row, 0]]
    back = np.ascontiguousarray(x[:, ::-1]) @ model.weights[:-1, ::-1].T
    assert np.array_equal(back, mean)


def test_rounding_moves_a_weight_by_less_than_a_thirty_millionth_of_the_largest() -> None:
    values = np.random.default_rng(1).normal(size=(10, 200)) * 1e3
    assert float(np.abs(rounded(values) - values).max()) < float(np.abs(values).max()) * 2**-25
    assert np.array_equal(rounded(rounded(values)), rounded(values))


def test_confidence_is_the_normal_probability_that_the_best_beats_the_second() -> None:
    def confidence(mean: list[float], std: list[float]) -> float:
        return float(confidences(np.array([mean]), np.array([std]))[0])

    assert confidence([0.0, 1.0], [0.6, 0.8]) == pytest.approx(0.5 * (1 + math.erf(1 / math.sqrt(2))), abs=1e-15)
    assert confidence([0.3, 0.3, 0.1], [0.1, 0.1, 0.1]) == 0.5
    assert confidence([0.3], [9.0]) == 1.0
    assert confidence([0.3, 0.2], [0.0, 0.0]) == 1.0
    rng = np.random.default_rng(2)
    mean, std = rng.normal(size=(50, 5)), rng.random((50, 5))
    mean[:10] = mean[:10].round()  # ties
    together = confidences(mean, std).tolist()
    assert together == [confidence(one, other) for one, other in zip(mean.tolist(), std.tolist(), strict=True)]
    for row, scores in enumerate(mean.tolist()):  # the same for the two best alone
        pair = list(two_best(scores))
        assert together[row] == confidence([scores[place] for place in pair], std[row, pair].tolist())


def _learned(knobs: dict[str, Any] | None = None) -> Learned:
    return BanditLearner().learn(MemoryLog(identity("numbers", 300)), knobs or {"model": "linear"}, seed=1)


def _built(learned: Learned, **knobs: Any) -> Bandit:
    policy = build("bandit", {**learned.knobs, **knobs}, learned.tensors, learned.extra)
    assert isinstance(policy, Bandit)
    return policy


RED = Situation(task="identity", state={"x0": 0.0, "x1": 0.0, "x2": 1.0})


def test_an_unknown_arm_starts_at_the_pooled_mean_with_the_prior_deviation() -> None:
    learned = _learned()
    policy = _built(learned, explore="thompson")
    opinion = opinion_on(policy, RED, (*CANDIDATES, Candidate("violet")))
    assert opinion.mean is not None
    assert opinion.std is not None
    totals = learned.tensors["totals"]
    assert opinion.mean[3] == pytest.approx(totals[:, 1].sum() / totals[:, 0].sum(), abs=1e-6)
    assert opinion.std[3] > 5 * opinion.std[:3].max()


def test_a_withdrawn_arm_changes_nothing_for_the_others() -> None:
    policy = _built(_learned())
    full, few = opinion_on(policy, RED, CANDIDATES), opinion_on(policy, RED, CANDIDATES[:2])
    assert full.mean is not None
    assert few.mean is not None
    assert np.array_equal(full.mean[:2], few.mean)
    assert CANDIDATES[int(full.probabilities.argmax())].name == "red"


def test_cost_weight_prices_arms_by_knob_by_candidate_and_by_the_others_mean() -> None:
    policy = _built(_learned(), cost_weight=2.0, costs={"red": 0.4})
    plain = opinion_on(_built(_learned()), RED, CANDIDATES).mean
    offered = (Candidate("blue", {"cost": 0.2}), Candidate("green"), Candidate("red", {"cost": 99.0}))
    priced = opinion_on(policy, RED, offered).mean
    assert plain is not None
    assert priced is not None
    assert plain - priced == pytest.approx([0.4, 0.6, 0.8], abs=1e-12)
    high = _built(_learned(), cost_weight=5.0, costs={"red": 1.0, "blue": 0.0, "green": 0.0})
    assert opinion_on(high, RED, CANDIDATES).probabilities[2] < 0.1


def test_policies_cannot_be_changed() -> None:
    policy = _built(_learned())
    assert isinstance(policy.model, Linear)
    for array in (policy.model.weights, policy.model.covariance, policy.model.noise, policy.seen):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


@pytest.mark.parametrize(
    ("tensors", "code"),
    [
        ({"weights": None}, "missing_tensor"),
        ({"weights": np.zeros((4, 3))}, "bad_tensor"),
        ({"weights": np.zeros((4, 4), dtype=np.float32)}, "bad_tensor"),
        ({"weights": np.full((4, 4), np.nan)}, "bad_tensor"),
        ({"covariance": np.full((4, 4, 4), -1.0)}, "bad_tensor"),
        ({"noise": np.array([-1.0])}, "bad_tensor"),
        ({"noise": np.array([np.inf])}, "bad_tensor"),
        ({"moments": np.zeros((2, 4, 4))}, "bad_tensor"),
        ({"totals": np.zeros(3)}, "bad_tensor"),
        ({"targets": [1, 2]}, "bad_tensor"),
    ],
)
def test_damaged_tensors_are_refused(tensors: dict[str, Any], code: str) -> None:
    learned = _learned()
    with pytest.raises(Damaged) as error:
        build("bandit", learned.knobs, {**learned.tensors, **tensors}, learned.extra)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("knobs", "extra"),
    [
        ({"model": "forest"}, {}),
        ({"explore": "nobody"}, {}),
        ({"explore": 3}, {}),
        ({"costs": {"red": "dear"}}, {}),
        ({"cost_weight": float("nan")}, {}),
        ({}, {"arms": ["red", "red", "blue"]}),
        ({}, {"arms": "red"}),
        ({}, {"arms": [1, 2, 3]}),
        ({}, {"features": None}),
        ({}, {"features": {"format": 1}}),
    ],
)
def test_a_damaged_header_is_refused(knobs: dict[str, Any], extra: dict[str, Any]) -> None:
    learned = _learned()
    with pytest.raises(Damaged) as error:
        build("bandit", {**learned.knobs, **knobs}, learned.tensors, {**learned.extra, **extra})
    assert error.value.code in ("bad_header", "damaged_features")


def test_an_unknown_family_and_another_encoder_are_refused() -> None:
    learned = _learned()
    with pytest.raises(UnknownName, match="bandit") as unknown:
        build("bandid", learned.knobs, learned.tensors, learned.extra)
    assert unknown.value.code == "family_missing"
    text = Features(encoder="minilm-1", text_width=1, means=(0.0,), scales=(1.0,)).to_json()
    with pytest.raises(HeadwayError) as error:
        build("bandit", learned.knobs, learned.tensors, {**learned.extra, "features": text})
    assert error.value.code == "encoder_mismatch"


@pytest.mark.parametrize("missing", ["centroids", "means", "stds", "totals"])
def test_damaged_clusters_are_refused(missing: str) -> None:
    learned = _learned({"model": "clusters"})
    for wrong in (None, np.zeros((0, 0)), np.full_like(learned.tensors[missing], np.nan)):
        with pytest.raises(Damaged):
            build("bandit", learned.knobs, {**learned.tensors, missing: wrong}, learned.extra)

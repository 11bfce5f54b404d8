"""Vectors of situations."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.encode import encoder
from headway.encode.state import Features
from headway.encode.tracker import Tracker, fit
from headway.nouns.errors import Damaged, InvalidInput
from headway.nouns.protocols import Encoder, Floats
from headway.nouns.records import Situation

NUMBERS = st.floats(-1e6, 1e6)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "a": NUMBERS,
        "b": st.integers(-1000, 1000),
        "flag": st.booleans(),
        "kind": st.sampled_from(["x", "y", "z", "other"]),
        "deltas": st.lists(NUMBERS, max_size=4),
        "fixed": st.lists(NUMBERS, min_size=3, max_size=3),
    },
)
SITUATIONS = st.lists(
    st.builds(
        lambda state, text, role: Situation(task="t", state=state, text=text, role=role),
        STATES,
        st.sampled_from(["", "alpha beta", "gamma"]),
        st.sampled_from(["", "coder", "planner"]),
    ),
    min_size=1,
    max_size=12,
)


def _of(**state: Any) -> Situation:
    return Situation(task="t", state=state)


def _vector(features: Features, situation: Situation, text: Encoder | None = None) -> Floats:
    return features.vectors([situation], text)[0]


@given(SITUATIONS, SITUATIONS)
def test_one_row_equals_its_row_in_a_batch_and_json_restores_the_features(
    seen: list[Situation], asked: list[Situation]
) -> None:
    text = encoder()
    features = fit(seen, text)
    again = Features.from_json(json.loads(json.dumps(features.to_json())))
    assert again == features
    rows = features.vectors(asked, text)
    assert rows.shape == (len(asked), features.width) == (len(asked), len(features.names))
    assert np.array_equal(rows, np.stack([_vector(again, situation, text) for situation in asked]))
    assert np.array_equal(rows, np.rint(rows / Features.GRID) * Features.GRID)
    assert (np.abs(rows) <= Features.LIMIT).all()
    assert (rows[:, 0] == 1.0).all()


def test_numbers_are_standardised_and_missing_ones_are_zero() -> None:
    features = fit([_of(a=float(i), b=7.0) for i in range(101)])
    assert features.names == ("bias", "a", "b")
    deviation = math.sqrt(sum((i - 50) ** 2 for i in range(101)) / 101)
    assert _vector(features, _of(a=100.0, b=7.0)) == pytest.approx([1.0, 50 / deviation, 0.0], abs=Features.GRID)
    assert _vector(features, _of()).tolist() == [1.0, 0.0, 0.0]
    assert _vector(features, _of(a=1e12)).tolist() == [1.0, Features.LIMIT, 0.0]


def test_statistics_of_a_long_stream_equal_those_of_the_whole() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(1e6, 3.0, 10_000)
    features = fit(_of(a=float(value)) for value in values)
    assert features.means[0] == pytest.approx(values.mean(), rel=1e-12)
    assert features.scales[0] == pytest.approx(values.std(), rel=1e-9)


def test_unknown_values_of_a_category_share_one_entry() -> None:
    features = fit([_of(kind="x"), _of(kind="y"), Situation(task="t", role="coder")])
    assert features.names == ("bias", "kind=x", "kind=y", "kind=…", "role=coder", "role=…")
    assert _vector(features, _of(kind="new")).tolist() == [1, 0, 0, 1, 0, 0]
    assert _vector(features, Situation(task="t", role="coder")).tolist() == [1, 0, 0, 0, 1, 0]


def test_only_the_most_frequent_values_of_a_category_get_an_entry() -> None:
    features = fit([_of(kind=f"k{i % 40:02d}" if i < 400 else "often") for i in range(500)])
    values = features.categories[0][1]
    assert len(values) == 32
    assert "often" in values


def test_a_sequence_of_fixed_length_is_kept_whole_and_another_is_summarised() -> None:
    fixed = fit([_of(pixels=[float(i), 0.0, 1.0]) for i in range(5)])
    assert fixed.names == ("bias", "pixels[0]", "pixels[1]", "pixels[2]")
    varying = fit([_of(deltas=[1.0] * i) for i in range(5)])
    assert [name.partition(".")[2] for name in varying.names[1:]] == ["mean", "last", "least", "greatest", "length"]
    assert _vector(fixed, _of(pixels=[1.0])).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_unknown_names_are_ignored_and_a_value_of_another_type_is_missing() -> None:
    features = fit([_of(a=1.0, kind="x"), _of(a=3.0, kind="y")])
    assert np.array_equal(_vector(features, _of(a=3.0, new=9.0)), _vector(features, _of(a=3.0)))
    assert np.array_equal(_vector(features, _of(a="three", kind=5)), _vector(features, _of()))
    numbers = fit([_of(a=1.0, b=2.0), _of(a=3.0, b=5.0)])
    assert np.array_equal(_vector(numbers, _of(a="3.0", b=2.0)), _vector(numbers, _of(b=2.0)))
    assert np.array_equal(numbers.vectors([_of(a="3.0", b=2.0)])[0], _vector(numbers, _of(b=2.0)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_when_fitting_and_encoding(bad: float) -> None:
    with pytest.raises(InvalidInput) as error:
        fit([_of(a=bad)])
    assert error.value.code == "not_finite"
    features = fit([_of(a=1.0, b=0.0), _of(a=2.0, b=1.0)])
    for ask in (lambda item: features.vectors([item]), lambda item: features.vectors([item, item])):
        with pytest.raises(InvalidInput, match="'a'") as error:
            ask(_of(a=bad, b=1.0))
        assert error.value.code == "not_finite"
    sequence = fit([_of(s=[1.0, 2.0]), _of(s=[3.0, 4.0])])
    with pytest.raises(InvalidInput, match=r"s\[1\]"):
        _vector(sequence, _of(s=[1.0, bad]))


def test_text_is_used_only_if_present_and_needs_the_same_encoder() -> None:
    assert fit([_of(a=1.0)], encoder()).text_width == 0
    features = fit([Situation(task="t", text="alpha beta")], encoder())
    assert features.text_width == 128
    assert features.names[129] == "text.length"
    for other in (None, encoder("hashing-1-w64")):
        with pytest.raises(Damaged) as error:
            _vector(features, Situation(task="t", text="x"), other)
        assert error.value.code == "encoder_mismatch"


def test_too_many_names_are_refused() -> None:
    tracker = Tracker()
    with pytest.raises(InvalidInput, match="different names"):
        tracker.add(_of(**{f"n{i}": float(i) for i in range(3000)}))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"more": 1},
        {"means": [1.0, 2.0]},
        {"scales": [0.0]},
        {"scales": [float("nan")]},
        {"means": ["1"]},
        {"numbers": [3]},
        {"text_width": -1},
        {"categories": [["a"]]},
        {"vectors": [["v", 10**9]]},
    ],
)
def test_damaged_features_are_refused(change: dict[str, Any]) -> None:
    good = fit([_of(a=1.0), _of(a=2.0)]).to_json()
    with pytest.raises(Damaged) as error:
        Features.from_json({**good, **change})
    assert error.value.code == "damaged_features"

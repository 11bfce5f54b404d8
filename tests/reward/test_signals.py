"""One signal: its transform, its bounds, and the values that are refused."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headway.nouns.errors import InvalidInput
from headway.reward.compose import Rewards
from headway.reward.signals import Term, apply, check, term


def test_stars_run_from_minus_one_to_one() -> None:
    assert [apply(term("stars"), stars) for stars in (1, 2, 3, 4, 5)] == [-1.0, -0.5, 0.0, 0.5, 1.0]


def test_thumbs_are_unchanged_and_their_mean_may_be_between() -> None:
    assert [apply(term("thumbs"), value) for value in (-1.0, 1.0, 0.2)] == [-1.0, 1.0, 0.2]


def test_log1p_counts_large_amounts_less() -> None:
    logged = term({"weight": 2.0, "transform": "log1p"})
    assert apply(logged, 0.0) == 0.0
    assert apply(logged, math.e - 1) == pytest.approx(1.0)
    assert apply(logged, -5.0) == 0.0, "signals stored before the transform was chosen do not break a rescore"


@given(st.floats(-1e9, 1e9), st.floats(-100, 0), st.floats(0.5, 100))
def test_clip_is_idempotent_and_stays_within_its_bounds(value: float, low: float, high: float) -> None:
    clipped = term({"transform": "clip", "low": low, "high": high})
    once = apply(clipped, value)
    assert low <= once <= high
    assert apply(clipped, once) == once
    assert once == value or not low < value < high


def test_bounds_apply_after_any_transform() -> None:
    assert apply(term({"transform": "stars", "low": 0.0}), 1.0) == 0.0
    assert apply(term({"transform": "log1p", "high": 1.0}), 100.0) == 1.0
    assert apply(term({"low": -1.0}), -3.0) == -1.0


def test_a_term_is_read_from_a_weight_a_name_or_a_table() -> None:
    assert term(-2) == Term(weight=-2.0)
    assert term("log1p") == Term(transform="log1p")
    assert term({"weight": 0.5, "transform": "clip", "high": 3}) == Term(weight=0.5, transform="clip", high=3.0)
    assert term(Term(weight=4.0)) == Term(weight=4.0)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("thumb", "Did you mean 'thumbs'?"),
        ("clip", "a table"),
        (True, "a weight"),
        (None, "a weight"),
        ([1], "a weight"),
        (math.nan, "a weight"),
        (math.inf, "a weight"),
        (10**400, "a weight"),
        ({"wieght": 1.0}, "Did you mean 'weight'?"),
        ({"transform": "star"}, "Did you mean 'stars'?"),
        ({"transform": 3}, "a transform out of"),
        ({"weight": "1"}, "a finite number as weight"),
        ({"low": math.inf}, "a finite number as low"),
        ({"high": "x"}, "a finite number as high"),
        ({"transform": "clip"}, "low or high"),
        ({"low": 2, "high": 1}, "low below high"),
    ],
)
def test_an_invalid_term_is_reported_with_the_expected_value(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        term(value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("rating", 0.5, "stars from 1 to 5"),
        ("rating", 5.5, "stars from 1 to 5"),
        ("rating", True, "stars from 1 to 5"),
        ("liked", 0, "thumbs: +1 for up or -1 for down"),
        ("liked", False, "thumbs: +1 for up or -1 for down"),
        ("tokens", -1, "a count or amount of 0 or more"),
        ("other", math.nan, "a finite number"),
        ("other", math.inf, "a finite number"),
        ("other", 10**400, "a finite number"),
        ("other", "good", "a number"),
        ("other", None, "a number"),
        ("", 1.0, "is not a signal name"),
        ("a b", 1.0, "is not a signal name"),
        ("a\n", 1.0, "is not a signal name"),
        ("x" * 65, 1.0, "is not a signal name"),
    ],
)
def test_an_invalid_signal_is_refused(name: str, value: Any, says: str) -> None:
    rewards = Rewards.from_settings(reward={"rating": "stars", "liked": "thumbs", "tokens": "log1p"})
    with pytest.raises(InvalidInput) as caught:
        rewards.check(name, value)
    assert says in str(caught.value)
    assert caught.value.code == "bad_signal"
    assert caught.value.hint


def test_a_valid_signal_is_returned_as_a_float() -> None:
    rewards = Rewards.from_settings(reward={"rating": "stars", "liked": "thumbs", "tokens": "log1p"})
    for name, value in (("rating", 5), ("rating", 3.5), ("liked", -1), ("tokens", 0), ("cost_usd", -3.25)):
        assert rewards.check(name, value) == value
        assert type(rewards.check(name, value)) is float
    assert check("solved", True) == 1.0

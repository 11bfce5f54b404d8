"""Draws of several heads: exact probabilities, masks, irrelevant heads, and the same bits alone and in a batch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from headway.kits.grow.factored import draw as factored
from headway.kits.grow.factored.space import Factored, Head
from headway.nouns.errors import InvalidInput, UnknownName
from tests.kits.grow.factored.test_space import SPACE

ROWS = 6
NO_MASKS: dict[str, Any] = {}


def _scores(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    noise = np.random.default_rng(seed)
    return {head.name: noise.normal(size=(rows, len(head.choices))) * 3 for head in SPACE.heads}


@st.composite
def masks(draw: st.DrawFn) -> dict[str, Any]:
    """Masks under which every head that counts has a choice."""
    leads = len(SPACE.lead.choices)
    given: dict[str, Any] = {}
    for head in SPACE.heads:
        shape = (ROWS, leads, len(head.choices)) if head.name in SPACE.conditional else (ROWS, len(head.choices))
        mask = draw(arrays.arrays(np.bool_, shape))
        given[head.name] = mask | (~mask.any(axis=-1, keepdims=True) & (np.arange(shape[-1]) == 0))
    given["slot"][:, 0] = False  # WAIT uses no slot, so it may forbid them all
    return given


@given(masks(), st.integers(0, 2**32), st.sampled_from([0.0, 0.05]))
def test_draws_keep_to_masks_and_irrelevant_heads_do_nothing(allowed: dict[str, Any], seed: int, floor: float) -> None:
    factored.check_masks(SPACE, allowed, ROWS)
    drawn = factored.draw(SPACE, _scores(seed=seed), allowed, range(seed, seed + ROWS), floor=floor)
    table = np.array(SPACE.relevant)
    for row, action in enumerate(drawn.actions):
        for place, name in enumerate(SPACE.names):
            shares = drawn.probabilities[name][row]
            assert abs(shares.sum() - 1.0) < 1e-12
            if not table[action[0], place]:
                assert action[place] == 0
                assert shares.tolist() == [1.0] + [0.0] * (len(shares) - 1)
                continue
            mask = allowed[name][row, action[0]] if name in SPACE.conditional else allowed[name][row]
            assert (shares[~mask] == 0.0).all()
            assert (shares[mask] >= floor / mask.sum() * (1 - 1e-12)).all()
            assert mask[action[place]]
    assert np.array_equal(drawn.propensity, np.prod(drawn.chosen(SPACE), axis=1))


@given(masks(), st.integers(0, 2**32))
def test_a_row_has_the_same_bits_alone_and_in_a_batch(allowed: dict[str, Any], seed: int) -> None:
    scores, seeds = _scores(seed=seed), [seed + 17 * row for row in range(ROWS)]
    together = factored.draw(SPACE, scores, allowed, seeds, floor=0.02)
    for row in range(ROWS):
        part = slice(row, row + 1)
        alone = factored.draw(
            SPACE,
            {name: score[part] for name, score in scores.items()},
            {name: mask[part] for name, mask in allowed.items()},
            seeds[part],
            floor=0.02,
        )
        assert np.array_equal(alone.actions[0], together.actions[row])
        assert alone.propensity[0] == together.propensity[row]
        assert all(np.array_equal(alone.probabilities[name][0], together.probabilities[name][row]) for name in scores)


def test_joint_propensities_of_all_actions_sum_to_one_and_are_their_frequencies() -> None:
    scores = _scores(1, seed=3)
    named: dict[str, float] = {}
    for action in itertools.product(*(range(size) for size in SPACE.sizes)):
        row = np.array([action])
        if all(counts or choice == 0 for counts, choice in zip(SPACE.relevant[action[0]], action, strict=True)):
            shares = factored.probabilities(SPACE, scores, NO_MASKS, row[:, 0])
            named[SPACE.name(action)] = float(factored.joint(SPACE, shares, row)[0])
    assert sum(named.values()) == pytest.approx(1.0, abs=1e-12)
    count = 4000
    repeated = {name: np.repeat(score, count, axis=0) for name, score in scores.items()}
    drawn = factored.draw(SPACE, repeated, NO_MASKS, range(count))
    for name, share in named.items():
        hits = sum(SPACE.name(action) == name for action in drawn.actions.tolist())
        assert abs(hits - count * share) <= 6.0 * np.sqrt(count * share * (1 - share)) + 1  # 6 deviations


def test_best_takes_the_likeliest_allowed_choices() -> None:
    scores = {name: np.zeros((1, size)) for name, size in zip(SPACE.names, SPACE.sizes, strict=True)}
    scores["op"][0] = [0.0, 5.0, 4.0]
    scores["blueprint"][0] = [0.0, 1.0, 2.0]
    assert factored.best(SPACE, scores, NO_MASKS).tolist() == [[1, 0, 2, 0]]
    masked = {"op": np.array([[True, False, True]]), "blueprint": np.array([[True, True, False]])}
    assert factored.best(SPACE, scores, masked).tolist() == [[2, 0, 1, 0]]


def _allowing(**changes: Any) -> dict[str, Any]:
    return {name: np.array(mask, dtype=bool) for name, mask in changes.items()}


@pytest.mark.parametrize(
    ("given_masks", "says"),
    [
        (_allowing(op=[[0, 0, 0]]), "masks.op allows nothing"),
        (_allowing(blueprint=[[0, 0, 0]]), "masks.blueprint allows nothing where 'GROW' is drawn"),
        (_allowing(slot=[[[0, 0], [1, 1], [0, 0]]]), "masks.slot allows nothing where 'PRUNE' is drawn"),
        (_allowing(slot=[[1, 1]]), r"masks.slot is bool \[1, 2\], expected bool \[1, 3, 2\]"),
        ({"op": np.ones((1, 3))}, "masks.op is float64"),
    ],
)
def test_a_mask_that_may_leave_nothing_is_refused_whatever_is_drawn(given_masks: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        factored.check_masks(SPACE, given_masks, 1)


def test_masks_that_only_empty_what_is_not_used_are_kept() -> None:
    factored.check_masks(SPACE, _allowing(slot=[[[0, 0], [1, 0], [0, 1]]], speed=[[1, 0]]), 1)
    only_wait = _allowing(op=[[1, 0, 0]], slot=[[[0, 0], [0, 0], [0, 0]]], blueprint=[[0, 0, 0]])
    factored.check_masks(SPACE, only_wait, 1)
    assert factored.draw(SPACE, _scores(1), only_wait, [5]).actions.tolist() == [[0, 0, 0, 0]]


def test_an_unknown_mask_is_named() -> None:
    with pytest.raises(UnknownName, match="no head 'sloth'"):
        factored.check_masks(SPACE, _allowing(sloth=[[1]]), 1)


def test_one_head_is_an_ordinary_choice() -> None:
    space = Factored((Head("arm", ("a", "b")),))
    drawn = factored.draw(space, {"arm": np.zeros((2, 2))}, NO_MASKS, [1, 2])
    assert drawn.propensity.tolist() == [0.5, 0.5]

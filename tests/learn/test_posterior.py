"""The prior on the differences between arms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.learn.posterior import held_back, linear_posterior
from headway.nouns.protocols import Floats

TEXT = 12
WIDTH = 1 + TEXT + 1 + 2  # bias, text, its length, two numbers


def _rows(count: int, seed: int = 5) -> Floats:
    """Features whose text varies most along its first entries."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, WIDTH))
    x[:, 0] = 1.0
    x[:, 1 : 1 + TEXT] = 0.3 + x[:, 1 : 1 + TEXT] * 0.8 ** np.arange(TEXT)
    return x


def _held(x: Floats, ridge: float = 20.0) -> tuple[Floats, Floats]:
    return held_back((x.T @ x)[None], ridge, "shared", TEXT)


@given(st.integers(0, 400), st.floats(0.1, 1000.0))
def test_precision_and_covariance_are_each_others_inverse(count: int, ridge: float) -> None:
    precision, covariance = _held(_rows(count), ridge)
    assert precision @ covariance == pytest.approx(np.eye(WIDTH), abs=1e-9)


def test_the_prior_variance_of_a_reward_is_that_of_a_plain_ridge_but_lies_where_texts_differ() -> None:
    x = _rows(20_000)
    _, covariance = _held(x)
    text = covariance[1 : 1 + TEXT, 1 : 1 + TEXT]
    spread = np.cov(x[:, 1 : 1 + TEXT].T)
    assert np.trace(text @ spread) == pytest.approx(np.trace(spread) / 20.0, rel=0.01)
    assert text[0, 0] > 1.5 / 20.0
    assert text[-1, -1] < 0.1 / 20.0


def test_no_rows_and_a_text_that_never_changes_leave_a_plain_ridge() -> None:
    same = _rows(50)
    same[:, 1 : 1 + TEXT] = 0.25
    for x in (_rows(0), _rows(1), same):
        _, covariance = _held(x)
        assert covariance[1 : 1 + TEXT, 1 : 1 + TEXT] == pytest.approx(np.eye(TEXT) / 20.0, rel=1e-9, abs=1e-12)


def test_biases_lengths_and_numbers_have_their_own_regularisation() -> None:
    precision, _ = _held(_rows(100))
    assert np.diag(precision)[[0, 1 + TEXT, 2 + TEXT, 3 + TEXT]].tolist() == [5.0, 20.0 * TEXT, 20.0, 20.0]
    precision, _ = _held(_rows(100), ridge=2.0)
    assert precision[0, 0] == 2.0


def test_the_shared_part_is_learned_from_all_arms() -> None:
    """Ten arms with 30 rows each that differ only by their level: one arm alone could not learn the 12 weights."""
    rng = np.random.default_rng(8)
    weights = rng.normal(size=TEXT)
    arms, rows = 10, 30
    moments, targets, totals = np.zeros((arms, WIDTH, WIDTH)), np.zeros((arms, WIDTH)), np.zeros((arms, 3))
    for arm in range(arms):
        x = _rows(rows, seed=100 + arm)
        reward = 0.1 * arm + x[:, 1 : 1 + TEXT] @ weights + rng.normal(size=rows)
        moments[arm], targets[arm] = x.T @ x, x.T @ reward
        totals[arm] = (rows, reward.sum(), (reward * reward).sum())
    new = _rows(500, seed=1)
    truth = new[:, 1 : 1 + TEXT] @ weights
    errors = {}
    for prior in ("mean", "shared"):
        posterior = linear_posterior(moments, targets, totals, 100.0, prior, TEXT)
        guess = new @ posterior["weights"].T
        errors[prior] = float(((guess - guess.mean(axis=0)) - (truth - truth.mean())[:, None]).std())
    assert errors["shared"] < 0.5 * errors["mean"]
    # The noise is 1: it is not confused with the shared weights.
    noise = float(linear_posterior(moments, targets, totals, 100.0, "shared", TEXT)["noise"][0])
    assert noise == pytest.approx(1.0, abs=0.35)

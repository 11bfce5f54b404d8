"""The range of a forecast holds for the test that it is about, and says nothing where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

import numpy as np

from headway.nouns import Estimate, Evidence, Prospect
from headway.prove import likely_range
from headway.prove.betting import stakes

ALPHA, SPREAD = 0.02, 0.4


def evidence(scores: np.ndarray, n: int) -> Evidence:  # type: ignore[type-arg]
    mean, error = float(scores[:n].mean()), float(scores[:n].std()) / sqrt(n)
    curve = [(k, float(scores[:k].mean()), -1.0, 1.0) for k in range(n // 10, n + 1, n // 10)]
    shown = Estimate(value=mean, low=mean - 1.96 * error, high=mean + 1.96 * error, n=n, ess=float(n))
    return Evidence(
        task="route", kind="log", candidate="bandit@4f2a", candidate_hash="4f2a", against="rules@0", against_hash="0",
        n=n, difference=shown, values={}, statistic=0.0, threshold=1.0, rule="betting", alpha=ALPHA, curve=curve,
    )  # fmt: skip


def stop(scores: np.ndarray) -> int | None:  # type: ignore[type-arg]
    """The row at which the bet without horizon passes."""
    each, shares = stakes(ALPHA, None)
    wealth = np.cumsum(np.log1p(np.minimum(each / SPREAD, 0.25)[:, None] * scores), axis=1) + shares[:, None]
    passed = np.nonzero(np.logaddexp.reduce(wealth, axis=0) >= log(1.0 / ALPHA))[0]
    return int(passed[0]) + 1 if passed.size else None


def test_most_tests_pass_within_their_forecast() -> None:
    rng, held, looks = np.random.default_rng(37), 0, 0
    for _ in range(40):
        scores = np.clip(rng.normal(0.06, SPREAD, 12_000), -2.0, 2.0)
        end = stop(scores)
        for n in range(200, end or 0, 150):
            told = likely_range(evidence(scores, n))
            if told is None or end is None:
                continue
            fewest, _, most = told
            looks += 1
            held += fewest <= end - n and (most is None or end - n <= most)
    assert looks > 100
    assert held / looks > 0.7, f"{held} of {looks}"


def test_a_candidate_that_looks_worse_has_no_forecast_and_the_longest_test_ends_it() -> None:
    scores = np.random.default_rng(3).normal(-0.2, SPREAD, 1_000)
    assert likely_range(evidence(scores, 1_000)) is None
    good = evidence(-scores * 0.1, 1_000)
    free = likely_range(good)
    assert free is not None
    ends = replace(good, prospect=Prospect(likely=0.05, needed=None, most=1_040))
    assert likely_range(ends) == tuple(min(40, rows or 40) for rows in free)

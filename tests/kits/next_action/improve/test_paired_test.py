"""Keep or revert: rarely without effect, soon with a clear one, and mirrored for the other direction."""

from __future__ import annotations

import numpy as np
import pytest

from headway.kits.next_action.improve.paired_test import PairedTest
from headway.prove.log import Floats

NOISE = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy": lambda rng, size: rng.standard_t(1.5, size=size),
    "coin": lambda rng, size: rng.integers(0, 2, size=size).astype(float),
    "rare": lambda rng, size: (rng.random(size=size) < 0.05).astype(float),
}


def play(candidate: Floats, base: Floats, **settings: float) -> PairedTest:
    test = PairedTest(repeats=candidate.size, **{"alpha": 0.01, **settings})  # type: ignore[arg-type]
    for ours, theirs in zip(candidate.tolist(), base.tolist(), strict=True):
        if test.add(ours, theirs) != "open":
            break
    return test


@pytest.mark.parametrize("noise", NOISE)
def test_a_proposal_without_effect_is_kept_at_most_at_the_rate_alpha(noise: str) -> None:
    rng, count = np.random.default_rng(7), 1000
    kept = 0
    for _ in range(count):
        candidate, base = NOISE[noise](rng, (2, 30))
        kept += play(candidate, base).ruling == "kept"
    assert kept <= 29, f"{kept} of {count} at alpha 0.01"  # Binomial(1000, 0.01) exceeds 29 in fewer than 1 of 10^6


def test_bounded_measurements_without_effect_are_kept_at_most_at_the_rate_alpha() -> None:
    rng, kept = np.random.default_rng(7), 0
    for _ in range(200):
        candidate, base = (rng.random((2, 40)) < 0.9).astype(float)
        kept += play(candidate, base, width=1.0).ruling == "kept"
    assert kept <= 14  # Binomial(200, 0.01) exceeds 14 in fewer than 1 of 10^6


def test_of_a_hundred_proposals_without_effect_at_most_five_are_kept() -> None:
    rng = np.random.default_rng(11)
    kept = [play(*rng.normal(1.0, 0.1, size=(2, 30))).ruling == "kept" for _ in range(100)]
    assert sum(kept) <= 5


def test_a_certain_improvement_is_kept_after_nine_pairs() -> None:
    test = play(np.full(30, 1.1), np.full(30, 1.0))
    assert (test.ruling, test.pairs, test.wins) == ("kept", 9, 9)
    assert test.gain == pytest.approx(0.1)


def test_a_large_improvement_in_a_declared_range_is_kept() -> None:
    test = play(np.full(30, 1.0), np.full(30, 0.0), width=1.0)
    assert test.ruling == "kept"
    assert test.pairs < 12


def test_in_a_declared_range_the_mean_decides_and_not_the_number_of_wins() -> None:
    rng = np.random.default_rng(3)
    candidate = np.where(rng.random(200) < 0.3, 0.0, 0.6)  # wins 70% of the pairs, and is worse on average
    test = play(candidate, np.full(200, 0.5), width=1.0)
    assert test.wins > test.losses
    assert test.ruling == "reverted"
    assert play(candidate, np.full(200, 0.5)).ruling == "kept"


def test_equal_measurements_end_before_all_repeats_are_used() -> None:
    test = play(np.ones(30), np.ones(30))
    assert test.ruling == "reverted"
    assert test.pairs == 22, "with 8 pairs left, 9 wins are out of reach"


def test_an_improvement_below_the_margin_is_not_kept() -> None:
    assert play(np.full(30, 1.1), np.full(30, 1.0), margin=0.2).ruling == "reverted"
    assert play(np.full(30, 1.3), np.full(30, 1.0), margin=0.2).ruling == "kept"


@pytest.mark.parametrize("width", [None, 4.0])
def test_stopping_early_never_reverts_what_would_have_been_kept(width: float | None) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        candidate, base = np.clip(rng.normal([[0.6], [0.0]], 1.0, size=(2, 30)), -2.0, 2.0)
        settings = {} if width is None else {"width": width}
        early = play(candidate, base, **settings)
        whole = PairedTest(alpha=0.01, repeats=30, width=width)
        kept = False
        for ours, theirs in zip(candidate.tolist(), base.tolist(), strict=True):
            kept = kept or whole.add(ours, theirs) == "kept"
        if early.ruling == "reverted" and early.pairs < 30:
            worse = early._wealth()[1] >= early._limit
            assert worse or not kept

"""Money and quality against one action: unbiased, with intervals that cover, and silent where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.nouns.worth import Measure, TaskWorth, money, worth_text
from headway.prove.worth import WorthRows, compare_worth

ARMS = ("large", "small")


def rows(n: int, seed: int, *, target: float = 0.3, drawn: float = 0.5, quality: tuple[float, float] = (0.9, 0.6)):
    """A log in which `large` is drawn with `drawn`, for a policy that takes it with `target`: $0.004 against $0.001."""
    rng = np.random.default_rng(seed)
    action = np.where(rng.random(n) < drawn, 0, 1)
    return WorthRows(
        action=action,
        logged=np.tile([drawn, 1.0 - drawn], (n, 1)),
        target=np.tile([target, 1.0 - target], (n, 1)),
        quality=(rng.random(n) < np.array(quality)[action]).astype(float),
        cost=np.array([0.004, 0.001])[action] * rng.uniform(0.5, 1.5, n),
        arms=ARMS,
    )


def test_the_intervals_cover_the_true_saving_and_ratio_about_as_often_as_they_say() -> None:
    saving, ratio = 0.7 * 0.003, (0.3 * 0.9 + 0.7 * 0.6) / 0.9
    hits = np.zeros(2)
    for seed in range(200):
        compared = compare_worth(rows(600, seed))
        assert compared.saved is not None
        assert compared.ratio is not None
        assert compared.against == "large"
        hits += (
            compared.saved.low <= saving <= compared.saved.high,
            compared.ratio.low <= ratio <= compared.ratio.high,
        )
    assert (hits >= 172).all(), hits  # of 200 at 95%: fewer has a probability below 1e-6


def test_of_actions_with_the_same_quality_the_expensive_one_is_compared_with() -> None:
    compared = compare_worth(rows(2000, 1, quality=(0.8, 0.8)))
    assert compared.against == "large"
    assert compared.saved is not None
    assert compared.saved.low > 0.0


def test_a_router_that_takes_the_expensive_action_more_often_than_needed_is_compared_with_the_good_cheap_one() -> None:
    compared = compare_worth(rows(2000, 2, quality=(0.3, 0.9)))
    assert compared.against == "small"
    assert compared.saved is not None
    assert compared.saved.high < 0.0


def test_the_same_choices_save_nothing() -> None:
    compared = compare_worth(rows(1000, 3, target=1.0))
    assert compared.same
    assert compared.saved is not None


def test_a_cost_that_one_action_does_not_report_gives_no_saving() -> None:
    log = rows(1000, 4)
    cost = log.cost.copy()
    cost[log.action == 1] = np.nan
    compared = compare_worth(
        WorthRows(
            action=log.action, logged=log.logged, target=log.target, quality=log.quality, cost=cost, arms=log.arms
        )
    )
    assert compared.saved is None
    assert compared.unpriced == "small"
    assert compared.ratio is not None


@pytest.mark.parametrize(("sigma", "least", "most"), [(0.6, 70, 80), (1.0, 12, 60), (2.0, 0, 0)])
def test_log_normal_costs_are_shown_unless_their_tail_says_that_the_largest_are_still_to_come(
    sigma: float, least: int, most: int
) -> None:
    """Of 80 logs with σ = 2 a few have no extreme cost by chance, and look tame by their variance and skewness."""
    shown = missed = 0
    for seed in range(80):
        rng = np.random.default_rng([seed, 1500])
        action = np.where(rng.random(1500) < 0.8, 1, 0)
        shares = np.tile([0.2, 0.8], (1500, 1))
        cost = np.array([0.01, 0.0025])[action] * np.exp(sigma * rng.standard_normal(1500))
        quality = (rng.random(1500) < np.array([0.9, 0.5])[action]).astype(float)
        log = WorthRows(action=action, logged=shares, target=shares, quality=quality, cost=cost, arms=ARMS)
        saved, truth = compare_worth(log).saved, 0.8 * 0.0075 * np.exp(sigma**2 / 2.0)
        shown += saved is not None
        missed += saved is not None and not saved.low <= truth <= saved.high
    assert least <= shown <= most
    assert missed <= 4, "of 80 at 95%: more has a probability of 0.3"


def test_missing_outcomes_make_the_quality_unknown_and_few_of_them_only_widen_it() -> None:
    log = rows(4000, 7)
    silent = (log.action == 1) & (log.quality == 0.0)
    assert compare_worth(replace(log, quality=np.where(silent, np.nan, log.quality))).unrated == "small"
    few = compare_worth(replace(log, quality=np.where(silent & (np.arange(4000) % 40 == 0), np.nan, log.quality)))
    all_in = compare_worth(log)
    assert few.ratio is not None
    assert all_in.ratio is not None
    assert few.ratio.low <= all_in.ratio.low + 1e-4, "the missing ones are failures"
    assert few.ratio.high > all_in.ratio.high
    assert few.ratio.low <= (0.3 * 0.9 + 0.7 * 0.6) / 0.9 <= few.ratio.high


def test_the_dearest_costs_missing_make_the_saving_unknown_unless_their_range_is_declared() -> None:
    log = rows(4000, 8)
    silent = (log.action == 0) & (log.cost > 0.0052)
    hidden = replace(log, cost=np.where(silent, np.nan, log.cost))
    compared = compare_worth(hidden)
    assert (compared.saved, compared.unpriced) == (None, "large")
    declared = compare_worth(replace(hidden, cost_range=(0.0, 0.006)))
    assert declared.saved is not None
    assert declared.saved.low <= 0.7 * 0.003 <= declared.saved.high


@pytest.mark.parametrize("dearest", [True, False])
def test_few_missing_costs_only_widen_the_interval(dearest: bool) -> None:
    for seed in range(20):
        log = rows(4000, seed)
        gone = (log.action == 0) & (log.cost > 0.00592) if dearest else np.random.default_rng(seed).random(4000) < 0.01
        compared, complete = compare_worth(replace(log, cost=np.where(gone, np.nan, log.cost))), compare_worth(log)
        assert compared.saved is not None
        assert complete.saved is not None
        assert compared.saved.low <= min(complete.saved.low, 0.7 * 0.003)
        assert compared.saved.high >= max(complete.saved.high, 0.7 * 0.003)
        assert 0.011 < compared.unpriced_most <= 0.012, "twice the largest known cost of `large`"
        assert complete.unpriced_most == 0.0


@pytest.mark.parametrize(("silent", "shown"), [(0.0, 0), (0.02, 1)])
def test_a_heavy_tail_makes_the_saving_unknown(silent: float, shown: int) -> None:
    """Also where the dearest calls report no cost, so that the others look tame: then 10 of these 20 were shown."""
    for seed in range(20):
        log = rows(1500, seed)
        dear = 0.01 * (np.random.default_rng([seed, 1]).pareto(1.2, 1500) + 1.0)
        known = np.where(dear > np.quantile(dear, 1.0 - silent), np.nan, dear)
        compared = compare_worth(replace(log, cost=np.where(log.action == 0, known, log.cost)))
        shown -= compared.saved is not None
        assert compared.heavy or compared.unpriced or compared.saved
    assert shown >= 0


def test_one_odd_cost_that_hardly_counts_is_no_heavy_tail() -> None:
    log = rows(3000, 9)
    cost = np.where(log.action == 0, 0.25, 0.02)
    cost[np.flatnonzero(log.action == 0)[0]] = 0.02
    compared = compare_worth(replace(log, cost=cost))
    assert compared.saved is not None
    assert compared.saved.low <= 0.7 * 0.23 <= compared.saved.high


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_rare_failures_that_few_rows_have_shown_are_allowed_for(share: float) -> None:
    held = 0
    for seed in range(100):
        compared = compare_worth(rows(1500, seed, target=0.2, drawn=share, quality=(0.98, 0.97)))
        assert compared.ratio is not None
        held += compared.ratio.low <= (0.2 * 0.98 + 0.8 * 0.97) / 0.98 <= compared.ratio.high
    assert held >= 88, "of 100 at 95%: fewer has a probability of 0.002"


@pytest.mark.parametrize(("n", "drawn"), [(99, 0.5), (400, 0.01)])
def test_too_few_rows_say_so(n: int, drawn: float) -> None:
    assert compare_worth(rows(n, 5, drawn=drawn)).short


def test_quality_about_zero_gives_a_difference_and_no_ratio() -> None:
    compared = compare_worth(rows(1000, 6, quality=(0.02, 0.01)))
    assert compared.ratio is None
    assert compared.gap is not None


def test_money_keeps_two_digits() -> None:
    assert money(-1e-18) == "$0.00", "no minus before nothing"
    assert [money(x) for x in (3.1, -0.4, 0.00022, 0.05, 0.0, 12345.6)] == [
        "$3.10",
        "-$0.40",
        "$0.00022",
        "$0.05",
        "$0.00",
        "$12,346",
    ]


def _worth(**fields: object) -> TaskWorth:
    return TaskWorth(**{"state": "known", "text": "", "policy": "bandit@1", "promoted": True, "against": "large",
                        "unit": "$", **fields})  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("worth", "text"),
    [
        (
            _worth(saved=Measure(value=3.1, low=2.9, high=3.3), ratio=Measure(value=0.98, low=0.96, high=1.0)),
            "route saves $3.10 [$2.90, $3.30] per 1,000 requests at 98% [96%, 100%] of the quality of large.",
        ),
        (
            _worth(saved=Measure(value=-0.4, low=-0.5, high=-0.3), ratio=Measure(value=1.04, low=1.01, high=1.07)),
            "route costs $0.40 [$0.30, $0.50] more per 1,000 requests at 104% [101%, 107%] of the quality of large.",
        ),
        (
            _worth(saved=Measure(value=0.1, low=-0.2, high=0.4), gap=Measure(value=-0.02, low=-0.03, high=-0.01)),
            (
                "route saves nothing that can be shown ($0.10 [-$0.20, $0.40] per 1,000 requests), "
                "with 0.020 [0.010, 0.030] less quality per request than large."
            ),
        ),
        (
            _worth(saved=Measure(value=3.1, low=2.9, high=3.3), unit="", cost="price"),
            "route saves 3.10 [2.90, 3.30] of price per 1,000 requests against always large.",
        ),
        (
            _worth(ratio=Measure(value=0.98, low=0.96, high=1.0)),
            "route has 98% [96%, 100%] of the quality of large.",
        ),
    ],
)
def test_the_sentence(worth: TaskWorth, text: str) -> None:
    assert worth_text(worth, "route") == text

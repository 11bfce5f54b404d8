"""Evidence from pairs of scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.kits.heldout.paired import from_heldout, from_world
from headway.kits.report import pages as report
from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Plan
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.guard_bets import GuardRule

ABOUT = About(
    task="route",
    candidate="bandit@4f2a",
    against="rules@0",
    candidate_hash="4f2a" * 16,
    against_hash="beef" * 16,
    reward_version="0123456789abcdef",
    command="headway prove route --policy bandit@4f2a",
)


def test_a_world_is_proven_on_paired_episodes() -> None:
    rng = np.random.default_rng(25)
    level = rng.normal(0.0, 1.0, 300)
    better, same = level + rng.normal(0.15, 0.3, 300), level + rng.normal(0.0, 0.3, 300)
    assert verdict(from_world(better, level, ABOUT)).passed
    assert verdict(from_world(level, better, ABOUT)).state == "worse"
    assert verdict(from_world(same, level, ABOUT)).state == "wait"
    assert verdict(from_world(better[:20], level[:20], ABOUT)).state == "refused"
    planned = replace(ABOUT, plan=Plan(horizon=300, uplift=0.1, power=0.8, alpha=0.04))
    assert verdict(from_world(same, level, planned)).state == "refused"  # the registered episodes are used up
    slow = {"latency_s": (np.full(300, 2.0) + rng.normal(0, 0.1, 300), np.full(300, 1.0))}
    answer = verdict(
        from_world(better, level, ABOUT, guards=[GuardRule(name="latency_s", range=(0.0, 5.0))], metrics=slow)
    )  # type: ignore[arg-type]
    assert answer.state == "refused"
    assert "Guard latency_s got worse" in answer.reasons[0]
    with pytest.raises(InvalidInput, match="same length"):
        from_world([1.0, 2.0], [1.0], ABOUT)


def test_heldout_rows_of_one_group_count_once() -> None:
    rng = np.random.default_rng(26)
    shift = np.repeat(rng.normal(0.02, 0.5, 20), 50)  # 20 branches of 50 rows that share their luck
    current = rng.normal(0.0, 0.1, 1_000)
    groups = [f"branch {n // 50}" for n in range(1_000)]
    assert from_heldout(current + shift, current, ABOUT).n == 1_000
    grouped = from_heldout(current + shift, current, ABOUT, groups=groups)
    assert grouped.n == 20
    assert verdict(grouped).state == "refused"
    assert grouped.difference.high - grouped.difference.low > 0.2


def test_the_page_of_a_world_counts_episodes() -> None:
    level = [0.1 * (n % 7) for n in range(120)]
    page = verdict(from_world([value + 0.2 for value in level], level, ABOUT))
    assert "per episode" in report.text(page)
    assert "<script" not in report.html(page)

"""Whether a test is worth going on with: what is likely at most, and how many decisions would show it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.nouns.evidence import Plan, Prospect
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.evidence import LEAST, evidence_of, log_proof
from headway.prove.log import Log

ABOUT = About(task="route", candidate="bandit@1", against="rules@0", reward_range=(0.0, 1.0), most=25_000)


def rows(n: int, better: float, *, explored: float = 0.5, seed: int = 7) -> Log:
    """The candidate prefers the second arm, the current policy the first; the log chose the second so often."""
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < explored).astype(np.int64)
    reward = (rng.random(n) < np.where(action == 1, 0.5 + better, 0.5)).astype(np.float64)
    return Log.of(
        reward=reward,
        action=action,
        logged=np.tile([1.0 - explored, explored], (n, 1)),
        target=np.tile([0.05, 0.95], (n, 1)),
        baseline=np.tile([0.95, 0.05], (n, 1)),
    )


def of(log: Log, about: About = ABOUT) -> Prospect | None:
    proof = log_proof(about)
    proof.update(log)
    return evidence_of(proof, about).prospect


def test_nothing_is_said_before_there_are_enough_rows_or_where_there_is_no_limit() -> None:
    assert of(rows(LEAST - 1, -0.2)) is None
    assert of(rows(LEAST, -0.2)) is not None
    assert of(rows(LEAST, -0.2), replace(ABOUT, most=0)) is None
    plan = Plan(horizon=9_000, uplift=0.05, power=0.8, alpha=0.04)
    assert of(rows(LEAST, -0.2), replace(ABOUT, plan=plan)) is None, "a registered test ends at its horizon"


def test_a_candidate_that_is_clearly_not_better_is_futile_and_one_that_may_be_is_not() -> None:
    worse = of(rows(2_000, -0.2))
    assert worse is not None
    assert worse.likely < 0.0
    assert worse.needed is None
    assert worse.futile
    better = of(rows(2_000, 0.03))
    assert better is not None
    assert better.likely > 0.03
    assert better.needed is not None
    assert better.needed < 25_000
    assert not better.futile


def test_equal_policies_become_futile_when_what_is_likely_at_most_takes_too_long() -> None:
    late = of(rows(20_000, -0.005))
    assert late is not None
    assert late.futile
    about = replace(ABOUT, most=250_000)
    allowed = of(rows(20_000, -0.005), about)
    assert allowed is not None
    assert allowed.likely == late.likely
    assert allowed.futile == (allowed.needed is None or allowed.needed > 250_000)


def test_the_margin_must_be_likely() -> None:
    about = replace(ABOUT, margin=0.2)
    proof = log_proof(about)
    proof.update(rows(2_000, 0.05))
    answer = verdict(evidence_of(proof, about))
    assert answer.state == "no difference"
    assert "a promotion needs more than +0.2" in answer.reasons[0]


def test_a_log_that_says_little_is_not_futile_where_an_experiment_could_be_opened() -> None:
    rare = rows(3_000, 0.02, explored=0.05)
    alone, shared = of(rare), of(rare, replace(ABOUT, most_share=0.5))
    assert alone is not None
    assert shared is not None
    assert alone.likely == shared.likely
    assert alone.needed is not None
    assert shared.needed is not None
    assert shared.needed == pytest.approx(alone.needed / 5, rel=0.3), "exploring 5% needs five times as many decisions"


def test_the_limit_itself_ends_a_test() -> None:
    about = replace(ABOUT, most=2_000)
    proof = log_proof(about)
    proof.update(rows(2_000, 0.02))
    answer = verdict(evidence_of(proof, about))
    assert answer.state == "no difference"
    assert answer.evidence is not None
    assert answer.evidence.prospect is not None
    assert answer.evidence.prospect.futile

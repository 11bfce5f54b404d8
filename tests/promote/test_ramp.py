"""The steps of a promotion: which shares, how long, and what holds a step."""

from __future__ import annotations

from dataclasses import replace

from headway.nouns import Diagnostic, Estimate, Guard
from headway.promote import Ramp
from tests.promote.test_gate import EVIDENCE


def step(n: int, value: float = 0.05, low: float = -0.05, high: float = 0.15) -> object:
    return replace(EVIDENCE, n=n, difference=Estimate(value=value, low=low, high=high, n=n, ess=n), diagnostics=())


def test_the_steps_begin_above_the_share_at_which_the_candidate_was_proven() -> None:
    assert [ramp.shares for share in (0.0, 0.1, 0.2, 0.4, 0.5) if (ramp := Ramp.begin(proven=share, rows=1000))] == [
        (0.1, 0.25, 0.5, 1.0), (0.25, 0.5, 1.0), (0.25, 0.5, 1.0), (0.5, 1.0), (1.0,),
    ]  # fmt: skip
    assert Ramp.begin(proven=1.0, rows=1000) is None


def test_a_step_takes_an_eighth_of_the_proof_and_the_last_one_four_times_as_long() -> None:
    assert [ramp.least for rows in (200, 1000, 50_000) if (ramp := Ramp.begin(proven=0.0, rows=rows))] == [50, 125, 500]
    running, least = Ramp.begin(proven=0.0, rows=1000), []
    while running is not None:
        least.append((running.share, running.least))
        assert Ramp.of(running.detail) == running, "a ledger row keeps all of it"
        running = running.next
    assert least == [(0.1, 125), (0.25, 125), (0.5, 125), (0.95, 500)], "the last step holds some traffic back"


def test_a_step_goes_on_until_enough_outcomes_are_in_and_nothing_speaks_against_the_next() -> None:
    ramp = Ramp.begin(proven=0.0, rows=1000)
    assert ramp is not None
    assert ramp.holds(step(124)) == "124 of 125 decisions have their outcomes"
    assert ramp.holds(step(125)) == ""
    assert ramp.holds(step(125, value=-0.02)) == "", "less than a standard error"
    assert "looks worse" in ramp.holds(step(125, value=-0.06, low=-0.16, high=0.04))
    missing = Diagnostic(name="missing_width", value=1, limit=0, ok=False, blocks=True, message="Cannot tell: 9 open.")
    assert ramp.holds(replace(step(125), diagnostics=(missing,))) == "Cannot tell: 9 open"
    few = replace(missing, name="rows")
    assert ramp.holds(replace(step(125), diagnostics=(few,))) == "", "a step has fewer rows than a proof"
    slow = Guard(name="latency", difference=step(125).difference, tolerance=0.0, ok=False, message="+2 s")
    assert "guard latency got worse" in ramp.holds(replace(step(125), guards=(slow,)))

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from headway.cli import document_of
from headway.nouns.evidence import Diagnostic, Estimate, Evidence, Guard, Plan, Prospect
from headway.promote.gate import GateRules, verdict, worse
from headway.prove import sequential
from headway.prove.diagnostics import Floors

ESTIMATE = Estimate(value=0.04, low=0.01, high=0.07, n=4_000, ess=800)
EVIDENCE = Evidence(
    task="route",
    kind="log",
    candidate="bandit@4f2a",
    candidate_hash="4f2a",
    against="rules@0",
    against_hash="",
    n=4_000,
    difference=ESTIMATE,
    values={},
    statistic=160.0,
    statistic_worse=-160.0,
    threshold=100.0,
    rule="betting",
    alpha=0.02,
    bounds=(0.015, 0.065),
    needed=900,
)


def check(name: str, *, ok: bool, value: float = 5.0, limit: float = 10.0) -> Diagnostic:
    return Diagnostic(name=name, value=value, limit=limit, ok=ok, blocks=True, message="m", cure="Explore more.")


def test_enough_evidence_passes_with_its_bounds_in_the_reason() -> None:
    answer = verdict(EVIDENCE)
    assert answer.passed
    assert "between +0.0150 and +0.0650" in answer.reasons[0]


def test_too_little_evidence_waits_and_names_the_missing_amount() -> None:
    answer = verdict(replace(EVIDENCE, statistic=90.0, bounds=(-0.003, 0.05)))
    assert answer.state == "wait"
    assert answer.reasons == ("Not proven yet: lower bound -0.0030 is not above 0.",)
    assert "about 900 more decisions" in answer.hint


def test_exactly_at_the_threshold_is_not_above_it() -> None:
    assert verdict(replace(EVIDENCE, statistic=100.0)).state == "wait"


def test_the_other_side_of_the_rule_is_worse() -> None:
    bad = replace(EVIDENCE, statistic=-160.0, statistic_worse=160.0)
    assert worse(bad)
    assert verdict(bad).state == "worse"
    assert not worse(EVIDENCE)


def test_a_blocked_log_neither_promotes_nor_rolls_back() -> None:
    for sign in (1.0, -1.0):
        blocked = replace(
            EVIDENCE, statistic=160.0 * sign, statistic_worse=-160.0 * sign, diagnostics=(check("ess", ok=False),)
        )
        assert verdict(blocked).state == "refused"
        assert not worse(blocked)
        assert verdict(blocked).hint.startswith("Explore more.")


def test_a_failed_guard_refuses_and_does_not_hide_that_it_is_worse() -> None:
    guard = Guard(name="cost_usd", difference=ESTIMATE, tolerance=0.0, ok=False, message="m")
    assert verdict(replace(EVIDENCE, guards=(guard,))).state == "refused"
    bad = replace(EVIDENCE, guards=(guard,), statistic=-160.0, statistic_worse=160.0)
    assert verdict(bad).state == "worse"


def test_an_undecided_guard_waits_and_refuses_once_the_test_has_ended() -> None:
    guard = Guard(
        name="cost_usd", difference=ESTIMATE, tolerance=0.1, ok=False, message="m", undecided=True, needed=700
    )
    answer = verdict(replace(EVIDENCE, guards=(guard,)))
    assert answer.state == "wait"
    assert "700 more decisions" in answer.hint
    assert verdict(replace(EVIDENCE, guards=(guard,), ended=True)).state == "refused"
    assert verdict(replace(EVIDENCE, guards=(replace(guard, needed=None),))).hint.startswith("It looks worse")
    short = verdict(replace(EVIDENCE, guards=(guard,), statistic=90.0))
    assert short.reasons[0].startswith("Not proven yet")


@pytest.mark.parametrize(
    "name", ["drift", "missing_width", "missing_depends_on_action", "open_outcomes", "training_rows", "rows", "one_key"]
)
def test_a_check_that_protects_a_pass_never_vetoes_a_rollback(name: str) -> None:
    bad = replace(EVIDENCE, statistic=-160.0, statistic_worse=160.0, diagnostics=(check(name, ok=False),))
    assert worse(bad)
    assert verdict(bad).state == "worse"
    assert verdict(replace(EVIDENCE, diagnostics=(check(name, ok=False),))).state == "refused" or name == "one_key"


def test_the_other_side_has_a_threshold_of_its_own() -> None:
    bad = replace(EVIDENCE, statistic=-160.0, statistic_worse=60.0, threshold_worse=50.0)
    assert worse(bad)
    assert not worse(replace(bad, threshold_worse=None))


def test_missing_outcomes_are_refused_as_cannot_tell() -> None:
    answer = verdict(replace(EVIDENCE, diagnostics=(check("missing_width", ok=False),)))
    assert answer.reasons[0].startswith("Cannot tell: ")
    assert answer.disowned


@pytest.mark.kits("report")
def test_a_disowned_verdict_prints_no_number_of_its_evidence() -> None:
    from headway.kits.report import pages as report

    answer = verdict(replace(EVIDENCE, diagnostics=(check("ess", ok=False),)))
    assert answer.disowned
    assert f"{ESTIMATE.value:+.3f}" not in str(answer)
    assert "CANNOT TELL" in str(answer)
    assert f"{ESTIMATE.value:+.3f}" in str(verdict(EVIDENCE))
    document = document_of(answer)
    assert document["disowned"] is True
    assert (document["evidence"]["difference"], document["evidence"]["bounds"]) == (None, None)
    assert document_of(verdict(EVIDENCE))["evidence"]["difference"]["value"] == ESTIMATE.value
    for page in (report.text(answer), report.markdown(answer), report.html(answer)):
        assert "0.040" not in page
        assert "0.0150" not in page


@pytest.mark.parametrize("rule", ["confidence sequence", "registered horizon 20000"])
def test_evidence_by_an_earlier_rule_is_refused_as_stale(rule: str) -> None:
    answer = verdict(replace(EVIDENCE, rule=rule))
    assert answer.state == "refused"
    assert "earlier version" in answer.reasons[0]
    assert answer.hint.startswith("Prove again")
    assert verdict(replace(EVIDENCE, rule="betting, registered horizon 20000")).passed


def test_an_ended_test_cannot_pass_later() -> None:
    plan = Plan(horizon=4_000, uplift=0.02, power=0.8, alpha=0.02)
    answer = verdict(replace(EVIDENCE, statistic=90.0, plan=plan, ended=True))
    assert answer.state == "refused"
    assert "4,000 decisions are used up" in answer.reasons[0]


def test_a_test_that_cannot_be_decided_in_time_ends_without_a_difference() -> None:
    unproven = replace(EVIDENCE, statistic=90.0)
    hopeful = replace(unproven, prospect=Prospect(likely=0.03, needed=9_000, most=25_000))
    assert verdict(hopeful).state == "wait"
    tiny = replace(unproven, prospect=Prospect(likely=0.012, needed=31_000, most=25_000))
    assert verdict(tiny).reasons == (
        "No difference: at most +0.012 is likely; showing it would take 31,000 decisions, and a test may take 25,000.",
    )
    none = replace(unproven, prospect=Prospect(likely=-0.01, needed=None, most=25_000))
    assert verdict(none).state == "no difference"
    assert verdict(none).reasons == ("No difference: at most -0.010 is likely, and a promotion needs an improvement.",)
    assert str(verdict(none)).endswith(": NO DIFFERENCE")


def test_a_proof_comes_before_a_poor_prospect() -> None:
    prospect = Prospect(likely=0.0, needed=None, most=25_000)
    assert verdict(replace(EVIDENCE, prospect=prospect)).passed
    assert verdict(replace(EVIDENCE, prospect=prospect, statistic=-160.0, statistic_worse=160.0)).state == "worse"
    assert verdict(replace(EVIDENCE, prospect=prospect, diagnostics=(check("ess", ok=False),))).state == "refused"


def test_evidence_under_weaker_rules_is_refused() -> None:
    assert verdict(replace(EVIDENCE, alpha=0.05)).state == "refused"
    assert verdict(replace(EVIDENCE, alpha=0.04)).passed
    assert verdict(replace(EVIDENCE, challenger=2)).state == "refused"
    assert verdict(replace(EVIDENCE, challenger=2, alpha=0.04 / 12)).passed
    assert verdict(EVIDENCE, GateRules(margin=0.01)).state == "refused"
    assert verdict(replace(EVIDENCE, margin=0.01), GateRules(margin=0.01)).passed
    assert verdict(replace(EVIDENCE, kind="preference", alpha=0.05)).passed


def test_the_gate_and_prove_share_their_defaults() -> None:
    assert GateRules().alpha == sequential.ALPHA
    for k in range(1, 9):
        share = sequential.challenger_alpha(sequential.ALPHA, k)
        assert verdict(replace(EVIDENCE, challenger=k, alpha=share)).passed
        assert verdict(replace(EVIDENCE, challenger=k, alpha=share * 1.01)).state == "refused"
    assert Floors().rows == 200
    assert Floors().speaking == 30
    assert Floors().row_share == 0.10


@given(st.floats(-1e6, 1e6), st.floats(0.001, 1e6), st.booleans())
def test_never_both_better_and_worse(total: float, threshold: float, ended: bool) -> None:
    evidence = replace(EVIDENCE, statistic=total, statistic_worse=-total, threshold=threshold, ended=ended)
    answer = verdict(evidence)
    assert (answer.state == "pass") == (total > threshold)
    assert (answer.state == "worse") == (-total > threshold)
    assert answer == verdict(evidence)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_nan_statistic_never_passes(value: float) -> None:
    assert not verdict(replace(EVIDENCE, statistic=value, statistic_worse=value)).passed


def test_cuts_that_could_make_a_worse_candidate_better_leave_no_verdict_against_it() -> None:
    bad = replace(EVIDENCE, statistic=-160.0, statistic_worse=160.0, bounds=(-0.065, -0.015))
    futile = replace(EVIDENCE, statistic=90.0, prospect=Prospect(likely=-0.01, needed=None, most=25_000))
    small, reversing = (
        replace(check("clipping_against", ok=True, value=value, limit=0.03), blocks=False) for value in (0.01, 0.02)
    )
    many = replace(check("clipping_against", ok=False, value=0.2, limit=0.03), blocks=False)
    for cuts, evidence, state in (
        (small, bad, "worse"),
        (reversing, bad, "refused"),
        (many, bad, "refused"),
        (small, futile, "no difference"),
        (many, futile, "refused"),
        (many, EVIDENCE, "pass"),
    ):
        judged = replace(evidence, diagnostics=(cuts,))
        assert verdict(judged).state == state
        assert worse(judged) == (state == "worse")

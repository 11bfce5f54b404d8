"""Outcomes that change after they were known: what a proof waits for, what it says, and when the loop may act."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headway.cli.doctor import _unread
from headway.loop.due import Marks, due, question
from headway.observe.lags import ChangeLags
from headway.project import changing_outcomes
from headway.project.prove.finality import frozen_lag, late_outcomes
from headway.project.prove.subject import current_policy
from headway.project.prove.terms import present_terms

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from _situations import corrected
from _situations.client import Client
from _situations.late import HOUR

SENTENCE = "Outcomes of 'b' change for up to 6 h: a proof counts decisions that are 7.5 h old."


def wrong_at_first(a: float = 0.6, b: float = 0.5) -> corrected.Visits:
    return corrected.corrected(a, b, 6 * HOUR)


def test_corrections_after_the_verdict_promote_nothing() -> None:
    ending = corrected.corrected_6h(1)
    assert not ending.promoted
    assert ending.looks > 5


def test_a_better_action_passes_although_its_failures_are_corrected_later() -> None:
    ending = corrected.corrected_and_better(1)
    assert ending.right
    assert "change for up to" not in ending.said, "the reasons are about the result; the notes about the wait"


def test_conversions_after_the_window_cannot_be_told_until_the_window_fits() -> None:
    ending = corrected.conversions_late(1)
    assert ending.state == "refused"
    assert "come after reward_after_s, up to 2 h" in ending.said
    assert corrected.conversions_in_time(1).right


def test_one_sentence_everywhere_and_only_old_decisions_count() -> None:
    with Client(corrected.AUTO, seed=3) as client:
        visits = wrong_at_first()
        client.serve(visits, 400)
        candidate = client.project.learn("route")
        client.serve(visits, 700)
        project = client.project
        verdict = project.prove(candidate)
        evidence = verdict.evidence
        assert evidence is not None
        assert SENTENCE in evidence.notes
        assert evidence.final_s == pytest.approx(7.5 * HOUR)
        assert evidence.waiting is not None
        assert evidence.waiting.decisions >= 449, "7.5 h of decisions"
        assert changing_outcomes(project, "route") == [SENTENCE]
        status = project.status().task("route")
        assert status is not None
        assert SENTENCE in status.warnings
        assert [finding.found for finding in _unread(project)] == [SENTENCE]


def test_the_loop_waits_for_the_age_of_the_log_then_proves_again() -> None:
    with Client(corrected.AUTO, seed=3) as client:
        visits = corrected.corrected(0.3, 0.8, 0.0)  # nothing changes
        client.serve(visits, 400)
        candidate = client.project.learn("route")
        client.serve(visits, 500)
        project = client.project
        verdict = project.prove(candidate)
        assert verdict.passed
        assert "only a person promotes" in verdict.reasons[-1]
        standing = project.standing("route")
        assert standing.too_young
        assert standing.waits
        assert not standing.acts
        marks = Marks(proved={question(standing): standing.judged})
        assert not due(standing, marks).act
        assert not due(standing, marks).prove
        client.serve(visits, 600)
        project.settle("route")
        standing = project.standing("route")
        assert standing.final
        assert due(standing, marks).prove, "the log is a day old: look again before acting"
        assert project.prove(candidate).passed
        standing = project.standing("route")
        assert standing.acts
        assert due(standing, marks).act


def test_a_person_may_promote_in_a_young_log() -> None:
    with Client(corrected.AUTO, seed=3) as client:
        visits = corrected.corrected(0.3, 0.8, 0.0)
        client.serve(visits, 400)
        candidate = client.project.learn("route")
        client.serve(visits, 500)
        verdict = client.project.prove(candidate)
        promoted = client.project.promote(candidate, because=verdict, at_once=True)
        assert promoted.policy == candidate
        assert "Outcomes may still change: the log is 15 h old" in promoted.why
        assert verdict.evidence is not None
        checks = client.project.report(verdict.evidence.id).page.checks
        assert not [check.name for check in checks if "_" in check.name], "every check has a name in words"


def test_a_longer_change_opens_another_test_and_a_shorter_one_does_not() -> None:
    with Client(corrected.AUTO, seed=3) as client:
        visits = corrected.corrected(0.3, 0.8, 0.0)
        client.serve(visits, 400)
        project = client.project
        candidate = project.candidate(project.learn("route"), "route")
        client.serve(visits, 300)
        project.prove(candidate.ref)
        settings = project.settings.task("route")
        current = current_policy(project, settings)
        terms = present_terms(project, settings, (candidate.ref, candidate.digest), (current.ref, current.digest))
        (charged,) = project.ledger.tests("route")
        assert charged.detail["final_s"] == 0.0
        none, six = ChangeLags(), ChangeLags(final={"b": 6 * HOUR})
        assert frozen_lag(project, "route", terms, "", none) == ("", 0.0)
        assert frozen_lag(project, "route", terms, "", ChangeLags(final={"b": 40.0})) == ("", 40.0)
        name, age = frozen_lag(project, "route", terms, "", six)
        assert (name, age) == (" final after 27000 s", 27_000.0)
        project.ledger.charge(replace(charged, detail={**charged.detail, "plan": name, "final_s": age}))
        assert len(project.ledger.tests("route")) == 2
        assert frozen_lag(project, "route", terms, "", none) == (name, 27_000.0)
        assert frozen_lag(project, "route", terms, "", ChangeLags(final={"b": 7 * HOUR})) == (name, 27_000.0)
        assert frozen_lag(project, "route", terms, "", ChangeLags(final={"b": 8 * HOUR}))[0] != name


def test_late_outcomes_matter_only_where_silence_has_a_worth() -> None:
    with Client(corrected.AUTO, seed=3) as client:
        settings = client.project.settings.task("route")
        late = ChangeLags(window={"a": 2 * HOUR})
        assert late_outcomes(settings, late).ok, "a missing outcome counts at its worst value"
        check = late_outcomes(msgspec.structs.replace(settings, on_censored=0.0), late)
        assert not check.ok
        assert "reward_after_s = 9000" in check.cure
        assert not late_outcomes(msgspec.structs.replace(settings, missing="at random"), late).ok

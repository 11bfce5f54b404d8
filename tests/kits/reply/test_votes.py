"""Blind comparisons as a kind of evidence: votes decide, and nobody alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headway.kits.reply.preference import PREFERENCE
from headway.kits.reply.votes import from_preferences, wilson
from headway.kits.report import pages as report
from headway.nouns.errors import InvalidInput
from headway.nouns.kit import catalogue
from headway.project import Project
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.testing import evidence_contract
from tests.kits.packages import install

ABOUT = About(
    task="route",
    candidate="bandit@4f2a",
    against="rules@0",
    candidate_hash="4f2a" * 16,
    against_hash="beef" * 16,
    reward_version="0123456789abcdef",
    command="headway prove route --policy bandit@4f2a",
)
FAMILY = """
import numpy as np
from headway.decide import explore
from headway.nouns.protocols import Learned, Opinions

class Plain:
    family = "votes"
    def opinions(self, situations, candidates, seeds, *, confidence=True, std=False):
        scores = np.zeros((len(situations), len(candidates)))
        return Opinions(explore.softmax(scores, 1.0), np.ones(len(situations)))

def read(knobs, tensors, extra, encoder):
    return Plain()

class Learner:
    def __init__(self, encoder=None):
        pass
    def learn(self, experience, knobs, seed, progress=None):
        tensors = {"seed": np.array([float(seed)])}
        return Learned(family="votes", tensors=tensors, knobs={}, metrics={}, baselines={}, trained_on={}, extra={})
"""
VOTES = """
[kits]
use = ["votes"]

[tasks.reply]
family = "votes"
reward = { preferred = 1.0 }
required = ["preferred"]
"""


@pytest.fixture
def voting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose family is judged by votes, with one candidate."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    path = "votes_kit.family"
    family = f'Family(kinds=("choice",), policy="{path}:read", learner="{path}:Learner", evidence=("preference",))'
    install(site, "votes", fields=f'families={{"votes": {family}}}', family=FAMILY)
    (tmp_path / "headway.toml").write_text(VOTES, "utf-8")
    catalogue.cache_clear()
    with Project(tmp_path) as project:
        project.learn("reply", seed=7)
        yield project
    catalogue.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "votes_kit"]:
        del sys.modules[name]


def vote(project: Project, candidate: str, share: float, count: int, *, rater: str = "", first: int = 0) -> None:
    """Comparisons of which the candidate wins this share."""
    for number in range(first, first + count):
        shown = project.decide("reply", f"question {number}", [candidate, "uniform@0"])
        wins = number * share % 1.0 < share
        project.signal(shown.id, rater=rater, preferred=float((shown.action == candidate) == wins))


def test_votes_of_blind_comparisons_decide(voting: Project) -> None:
    candidate = voting.ledger.entries("reply")[-1].policy
    step = voting.next_step("reply")
    assert step.verb == "decide"
    assert "Nobody has compared" in step.why
    with pytest.raises(InvalidInput, match="Nobody has compared"):
        voting.prove(task="reply")
    vote(voting, candidate, 0.8, 60)
    verdict = voting.prove(task="reply")
    assert verdict.passed, verdict.reasons
    evidence = verdict.evidence
    assert evidence is not None
    assert (evidence.kind, evidence.n, evidence.rule) == ("preference", 60, "e-process")
    assert evidence.counts["wins"] == 48
    evidence_contract(voting, PREFERENCE, "reply")
    assert voting.promote(task="reply").policy == candidate
    voting.rollback("reply")


def test_the_order_of_a_comparison_is_drawn_evenly_whoever_is_current(voting: Project) -> None:
    candidate = voting.ledger.entries("reply")[-1].policy
    shown = voting.decide("reply", "which first", [candidate, "uniform@0"])
    assert shown.probabilities == (0.5, 0.5)
    assert shown.policy == "uniform@0"
    assert voting.replay(shown.id).exact
    voting.record("reply", "uneven", [candidate, "uniform@0"], action=candidate, propensity=0.9)
    vote(voting, candidate, 0.5, 10)
    for decision in voting.query.decisions("reply"):
        voting.signal(decision.id, preferred=1.0)
    evidence = voting.prove(task="reply").evidence
    assert evidence is not None
    assert evidence.counts["in an order that was not drawn evenly"] == 1
    assert evidence.n == 11


def test_one_key_cannot_decide_a_comparison(voting: Project) -> None:
    candidate = voting.ledger.entries("reply")[-1].policy
    vote(voting, candidate, 0.5, 20, rater="ann")
    vote(voting, candidate, 1.0, 60, rater="bob", first=20)
    verdict = voting.prove(task="reply")
    assert verdict.state == "refused"
    assert "'bob'" in verdict.reasons[0]


def test_preferences_pass_at_twenty_and_not_below() -> None:
    assert verdict(from_preferences(41, 17, ABOUT, ties=9)).passed
    small = from_preferences(8, 4, ABOUT)
    assert verdict(small).state == "wait"
    assert small.needed
    assert verdict(from_preferences(17, 41, ABOUT)).state == "worse"
    third = from_preferences(41, 17, replace(ABOUT, challenger=3))
    assert third.threshold == pytest.approx(np.log(480))
    assert not verdict(third).passed
    assert small.difference.low + 0.5 == pytest.approx(0.3906, abs=1e-3)  # Wilson, for display
    with pytest.raises(InvalidInput):
        from_preferences(-1, 2, ABOUT)


def test_the_page_says_how_often_the_candidate_was_preferred() -> None:
    page = verdict(from_preferences(40, 12, ABOUT))
    assert "preferred 77% of the time" in report.text(page)
    for shown in (report.text(page), report.html(page), report.markdown(page)):
        assert page.evidence is not None
        assert page.evidence.data_hash in shown
        assert "<script" not in shown


def test_wilson_is_the_published_interval() -> None:
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert wilson(0, 0) == (0.0, 1.0)

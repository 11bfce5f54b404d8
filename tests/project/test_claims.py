"""Probabilities that a client sent are claims: a person may believe them, the loop never does."""

from __future__ import annotations

import random

import pytest

from headway.nouns import ids
from headway.nouns.conclusions import conclusion
from headway.nouns.errors import GateRefused
from headway.nouns.evidence import Verdict
from headway.project import Project
from headway.promote.next_steps import next_step

TOML = """[tasks.ask]
actions = ["a", "b"]
range = [0.0, 1.0]
explore = { kind = "epsilon", value = 0.4 }
fallback = "a"
"""
pytestmark = pytest.mark.engines(slow="postgresql", why="the rule is about verdicts, not about engines")
WORTH = {"a": 0.2, "b": 0.8}


class Clock:
    now = 1.75e9

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


@pytest.fixture
def project(tmp_path):
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    with Project(tmp_path, environ={}, clock=Clock(), seed=1) as opened:
        yield opened


def claim(project: Project, count: int, worth: dict[str, float] = WORTH, seed: int = 1) -> None:
    """Decisions of a client: each action with probability one half."""
    rng = random.Random(seed)
    for _ in range(count):
        action = rng.choice("ab")
        at = project.clock()
        made = project.record(
            "ask", "", state={"x": rng.random()}, action=action, propensity=0.5, id=ids.decision(at, rng.randbytes(8))
        )
        project.signal(made.id, reward=float(rng.random() < worth[action]))


def draw(project: Project, count: int, worth: dict[str, float] = WORTH, seed: int = 2) -> None:
    """Decisions of Headway."""
    rng = random.Random(seed)
    for _ in range(count):
        made = project.decide("ask", "", state={"x": rng.random()})
        project.signal(made.id, reward=float(rng.random() < worth[made.action]))


def proven(project: Project, policy: str = "fixed@0", against: str = "current") -> Verdict:
    return project.prove(policy, task="ask", against=against)


def test_a_claim_is_promoted_only_by_a_person_who_believes_it(project):
    claim(project, 700)
    candidate = project.learn("ask")
    verdict = proven(project, candidate)
    assert verdict.passed
    assert "whose probabilities a client sent" in " ".join(verdict.reasons)
    assert conclusion(verdict).endswith(", if the probabilities that your client sent are true.")
    assert verdict.evidence.counts["drawn by Headway"] == 0
    assert verdict.evidence.counts["claimed by a client"] == verdict.evidence.n
    standing = project.standing("ask")
    assert standing.waits
    assert not standing.admitted
    assert next_step(standing).command == f"headway promote ask --policy {candidate} --trust-claims"
    assert f"headway experiment start ask --policy {candidate}" in next_step(standing).why
    for refused in ({}, {"predicts_only": True}):
        with pytest.raises(GateRefused, match="a client sent") as error:
            project.promote(candidate, task="ask", **refused)
        assert "--trust-claims" in error.value.hint
        assert "headway experiment start" in error.value.hint
    entry = project.promote(candidate, because=verdict, task="ask", trust_claims=True, at_once=True)
    assert entry.detail["accepted"] == "claims"
    assert "a client sent" in entry.why


def test_what_headway_drew_needs_no_trust_even_beside_claims(project):
    claim(project, 300)
    draw(project, 1500)
    candidate = project.learn("ask")
    verdict = proven(project, candidate)
    assert verdict.passed
    claims = verdict.evidence.claims
    assert claims.rows > 50
    assert claims.drawn > 300
    assert claims.statistic > verdict.evidence.threshold
    assert verdict.evidence.reliance is None
    assert "client" not in conclusion(verdict)
    assert project.promote(candidate, task="ask", at_once=True).detail.get("accepted") is None


def test_a_log_that_headway_drew_alone_has_no_claims(project):
    draw(project, 400)
    evidence = proven(project, project.learn("ask")).evidence
    assert evidence.claims is None
    assert "drawn by Headway" not in evidence.counts


def test_claims_beside_equal_draws_do_not_promote(project):
    """The claimed rows say that b is better, those that Headway drew do not."""
    claim(project, 1200)
    draw(project, 800, {"a": 0.5, "b": 0.5})
    candidate = project.learn("ask")
    verdict = proven(project, candidate)
    assert verdict.passed
    assert verdict.evidence.reliance == "claims"
    assert verdict.evidence.claims.drawn > 200
    with pytest.raises(GateRefused):
        project.promote(candidate, task="ask")


def test_claims_alone_do_not_roll_a_promoted_policy_back(project):
    draw(project, 800)
    candidate = project.learn("ask")
    assert proven(project, candidate).passed
    project.promote(candidate, task="ask", at_once=True)
    claim(project, 1200, {"a": 0.9, "b": 0.1})
    assert project.guard("ask") is None
    standing = project.standing("ask")
    assert standing.disputed is not None
    assert "a client sent" in " ".join(standing.disputed.reasons)
    assert next_step(standing).verb == "rollback"

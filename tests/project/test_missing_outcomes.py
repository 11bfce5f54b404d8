"""Outcomes that are late or missing: they hold a proof back or count at their worst, and never decide it by silence."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.nouns.conclusions import conclusion
from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Verdict
from headway.project import Project

HOUR = 3600.0
TASK = """
[tasks.route]
actions = ["old", "new"]
fallback = "old"
state = ["x"]
rules = [{ when = "x > 0", use = "new" }]
range = [0.0, 1.0]
explore = { kind = "epsilon", value = 0.5 }
retrain_after = 50
"""

Outcome = Callable[[str, random.Random], float | None]  # (action, random) → reward; None: not reported


class World:
    """A project with a clock of its own: one decision every ten seconds."""

    def __init__(self, folder: Path, more: str = "") -> None:
        (folder / "headway.toml").write_text(TASK + more)
        self.now = 1_900_000_000.0
        self.project = Project(folder, environ={}, seed=5, clock=lambda: self.now)
        self.rng = random.Random(11)
        self.late: list[tuple[float, str, float]] = []  # when, decision, reward

    def play(self, n: int, outcome: Outcome, late: Outcome | None = None, delay: float = 6 * HOUR) -> None:
        for number in range(n):
            self.now += 10.0
            self.deliver()
            pick = self.project.decide("route", f"request {self.now} {number}", state={"x": 1})
            reward = outcome(pick.action, self.rng)
            if reward is not None:
                self.project.signal(pick.id, reward=reward)
            elif late is not None:
                told = late(pick.action, self.rng)
                assert told is not None
                self.late.append((self.now + delay, pick.id, told))

    def deliver(self) -> None:
        due = [row for row in self.late if row[0] <= self.now]
        self.late = [row for row in self.late if row[0] > self.now]
        for _, decision, reward in due:
            self.project.signal(decision, reward=reward)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.deliver()

    def prove_new(self) -> Verdict:
        """Is always "new" better than always "old"?"""
        return self.project.prove("rules@0", against="fixed@0", task="route")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(more: str = "") -> World:
        folder = tmp_path / f"{len(worlds)}"
        folder.mkdir()
        worlds.append(World(folder, more))
        return worlds[-1]

    yield make
    for one in worlds:
        one.project.close()


def success(chance: dict[str, float]) -> Outcome:
    return lambda action, rng: float(rng.random() < chance[action])


EQUAL = {"old": 0.6, "new": 0.6}


def failures_of_new_are_late(chance: dict[str, float]) -> Outcome:
    def outcome(action: str, rng: random.Random) -> float | None:
        reward = float(rng.random() < chance[action])
        return None if action == "new" and reward == 0.0 else reward

    return outcome


def test_failures_that_come_late_do_not_make_an_arm_look_better(world) -> None:
    here = world()
    here.play(800, failures_of_new_are_late(EQUAL), late=lambda *_: 0.0)
    early = here.prove_new()
    assert early.state in ("wait", "refused")
    assert early.evidence is not None
    assert early.evidence.counts["waiting for their outcome"] > 700
    assert "more decisions wait" in early.reasons[-1]
    here.wait(7 * HOUR)
    verdict = here.prove_new()
    assert verdict.evidence is not None
    assert verdict.evidence.n == 800, "all outcomes are in"
    assert verdict.state in ("wait", "refused")


def test_a_proof_that_waits_for_outcomes_says_until_when_and_keeps_its_word(world) -> None:
    def some_never_come(action: str, rng: random.Random) -> float | None:
        return None if rng.random() < 0.03 else float(rng.random() < {"old": 0.3, "new": 0.8}[action])

    here = world()
    here.play(600, some_never_come)
    early = here.prove_new()
    assert early.word == "too early"
    assert early.more == 0, "the decisions that it needs are made"
    assert early.evidence is not None
    waiting = early.evidence.waiting
    assert waiting is not None
    assert 5 < waiting.open < 40 < waiting.decisions
    assert waiting.counting < waiting.decisions, "only as many as are needed are counted"
    assert f"waiting for {waiting.open} outcomes, at the latest until " in conclusion(early)
    assert "Send the" in early.hint
    here.wait(waiting.until - here.now + 1.0)
    then = here.prove_new()
    assert then.evidence is not None
    assert then.evidence.n >= early.evidence.n + waiting.counting


def test_decisions_without_any_outcome_are_no_evidence_yet(world) -> None:
    here = world()
    here.play(20, lambda *_: None)
    with pytest.raises(InvalidInput, match=r"Waiting for outcomes: .* 20 without an outcome yet") as raised:
        here.prove_new()
    assert raised.value.code == "no_evidence"
    assert "for the first of them on 18 March 2030" in raised.value.hint


def test_a_better_arm_is_proven_once_its_late_failures_are_in(world) -> None:
    here = world()
    here.play(800, failures_of_new_are_late({"old": 0.4, "new": 0.75}), late=lambda *_: 0.0)
    here.wait(7 * HOUR)
    assert here.prove_new().passed


def test_failures_that_are_never_reported_are_not_counted_as_if_they_had_not_happened(world) -> None:
    here = world()
    here.play(800, failures_of_new_are_late(EQUAL))
    here.wait(25 * HOUR)  # a day later they are missing for good
    verdict = here.prove_new()
    assert verdict.state == "refused"
    assert "Cannot tell: " in verdict.reasons[0]
    assert "count at their worst value" in verdict.reasons[0]
    assert verdict.evidence is not None
    assert verdict.evidence.counts["at worst value"] > 100
    assert 'missing = "at random"' in verdict.hint


def silence(action: str, rng: random.Random) -> float | None:
    """Half of all outcomes are reported: the successes of "new", the failures of "old" more often."""
    reward = float(rng.random() < 0.5)
    told = 0.8 if (reward == 1.0) == (action == "new") else 0.2
    return reward if rng.random() < told else None


@pytest.mark.slow
def test_outcomes_that_are_missing_equally_often_but_not_at_random_prove_nothing(world) -> None:
    here = world()
    here.play(1_000, silence)
    here.wait(25 * HOUR)
    verdict = here.prove_new()
    assert verdict.state == "refused"
    assert "Cannot tell: " in verdict.reasons[0]
    assert "count at their worst value" in verdict.reasons[0]


@pytest.mark.slow
def test_missing_at_random_is_a_declaration_that_the_evidence_repeats(world) -> None:
    def often_missing(action: str, rng: random.Random) -> float | None:
        reward = float(rng.random() < {"old": 0.35, "new": 0.75}[action])
        return None if rng.random() < 0.3 else reward

    here = world('missing = "at random"\n')
    here.play(1_000, often_missing)
    here.wait(25 * HOUR)
    verdict = here.prove_new()
    assert verdict.passed
    assert verdict.evidence is not None
    assert verdict.evidence.declared == {"missing": "at random"}
    assert "at worst value" not in verdict.evidence.counts

    bounded = world()
    bounded.play(1_000, often_missing)
    bounded.wait(25 * HOUR)
    assert bounded.prove_new().state == "refused"


@pytest.mark.slow
def test_a_declared_worth_of_a_missing_outcome_is_its_reward(world) -> None:
    here = world("on_censored = 0.0\n")
    here.play(800, failures_of_new_are_late(EQUAL))  # what is not reported failed
    here.wait(25 * HOUR)
    verdict = here.prove_new()
    assert verdict.state in ("wait", "refused")
    assert "Cannot tell" not in " ".join(verdict.reasons)
    assert verdict.evidence is not None
    assert abs(verdict.evidence.difference.value) < 0.15


@pytest.mark.slow
def test_few_missing_outcomes_do_not_hold_a_clear_result_back(world) -> None:
    def rarely_missing(action: str, rng: random.Random) -> float | None:
        reward = float(rng.random() < {"old": 0.3, "new": 0.8}[action])
        return None if rng.random() < 0.02 else reward

    here = world()
    here.play(800, rarely_missing)
    here.wait(25 * HOUR)
    verdict = here.prove_new()
    assert verdict.passed
    assert verdict.evidence is not None
    assert verdict.evidence.counts["at worst value"] > 5


def test_a_policy_that_is_worse_is_rolled_back_though_outcomes_are_missing(world) -> None:
    def worse(action: str, rng: random.Random) -> float | None:
        reward = float(rng.random() < {"old": 0.9, "new": 0.1}[action])
        return None if rng.random() < 0.1 else reward

    here = world()
    here.play(800, worse)
    here.wait(25 * HOUR)
    assert here.prove_new().state == "worse"

"""A proof is about the actions that a task has now, whatever it had when its decisions were made."""

from __future__ import annotations

import random

import pytest

from headway.nouns.errors import Conflict
from headway.project import Project
from tests.project.test_claims import Clock

TASK = '[tasks.ask]\nrange = [0.0, 1.0]\nfloor = 0.4\nrules = [{ when = "text_length >= 0", use = "a" }]\nactions = '
TWO, THREE = '["a", "b"]', '["a", "b", "c"]'
pytestmark = pytest.mark.engines(slow="postgresql", why="the rule is about actions, not about engines")


def opened(folder, actions: str, clock: Clock) -> Project:
    (folder / "headway.toml").write_text(TASK + actions + "\n", "utf-8")
    return Project(folder, environ={}, clock=clock, seed=int(clock.now))


def serve(project: Project, count: int, worth: dict[str, float], candidates: list[str] | None = None) -> None:
    rng = random.Random(count)
    for _ in range(count):
        made = project.decide("ask", "", candidates, state={"x": rng.random()})
        project.signal(made.id, reward=float(rng.random() < worth[made.action]))


def test_a_removed_action_is_no_choice_and_its_decisions_still_count(tmp_path):
    clock, worth = Clock(), {"a": 0.5, "b": 0.1, "c": 0.9}
    with opened(tmp_path, THREE, clock) as project:
        serve(project, 900, worth)
        candidate = project.learn("ask")
        verdict = project.prove(candidate, task="ask")
        assert verdict.passed, "with c it is better"
        counted = verdict.evidence.n
    with opened(tmp_path, TWO, clock) as project:
        with pytest.raises(Conflict, match="actions") as error:
            project.promote(candidate, because=verdict, task="ask")
        assert error.value.code == "stale_evidence"
        again = project.prove(candidate, task="ask")
        assert not again.passed
        assert again.word == "no difference", "without it, it chooses a as the rules do"
        assert again.evidence.n == counted


def test_what_a_client_offers_with_a_decision_stays_as_it_was_but_for_removed_actions(tmp_path):
    clock, worth = Clock(), {"a": 0.2, "b": 0.8, "c": 0.5}
    with opened(tmp_path, THREE, clock) as project:
        serve(project, 450, worth, ["a", "b"])
        serve(project, 450, worth, ["a", "b", "c"])
        candidate = project.learn("ask")
        counted = project.prove(candidate, task="ask").evidence.n
    with opened(tmp_path, TWO, clock) as project:
        verdict = project.prove(candidate, task="ask")
        assert verdict.passed
        assert verdict.evidence.n == counted
    with opened(tmp_path, '["a", "b", "c", "d"]', clock) as project:
        left = project.prove(candidate, task="ask").evidence.counts
        assert 0 < left["made before 'd' could be chosen"] < 450, "those that offered all of that time"


def test_decisions_from_before_an_action_was_added_do_not_count(tmp_path):
    clock, worth = Clock(), {"a": 0.2, "b": 0.8, "c": 0.0}
    with opened(tmp_path, TWO, clock) as project:
        serve(project, 900, worth)
        candidate = project.learn("ask")
        passed = project.prove(candidate, task="ask")
        assert passed.passed
    with opened(tmp_path, THREE, clock) as project:
        serve(project, 60, worth)
        verdict = project.prove(candidate, task="ask")
        assert verdict.word == "too early"
        assert verdict.evidence.n == 60
        assert verdict.evidence.counts["made before 'c' could be chosen"] == passed.evidence.n
        serve(project, 400, worth)
        assert project.prove(candidate, task="ask").passed
    with opened(tmp_path, TWO, clock) as project:
        assert project.prove(candidate, task="ask").evidence.n > passed.evidence.n, "all count again"

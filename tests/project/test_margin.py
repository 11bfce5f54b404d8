"""`margin`: what a promotion requires, from the settings to the ledger."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headway.nouns.conclusions import conclusion
from headway.nouns.errors import GateRefused, InvalidInput
from headway.project import Project

TOML = """[tasks.ask]
actions = ["a", "b"]
range = [0.0, 1.0]
explore = {{ kind = "epsilon", value = 0.6 }}
fallback = "a"
margin = {margin}
"""
pytestmark = pytest.mark.engines(slow="postgresql", why="the rule is about verdicts, not about engines")

TRUTH = 0.4 * 0.5 * 0.5  # where the policies differ, 40% of the probability moves to an action worth .5 more


class Clock:
    now = 1.75e9

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


def opened(folder: Path, margin: float, clock: Clock) -> Project:
    (folder / "headway.toml").write_text(TOML.format(margin=margin), "utf-8")
    return Project(folder, environ={}, clock=clock, seed=1)


def draw(project: Project, count: int) -> None:
    """`b` is worth .5 more where x is above .5, and `a` as much elsewhere."""
    rng = random.Random(4)
    for _ in range(count):
        x = rng.random()
        made = project.decide("ask", "", state={"x": x})
        project.signal(made.id, reward=float(rng.random() < (0.75 if (made.action == "b") == (x > 0.5) else 0.25)))


def test_a_margin_counts_in_every_step_from_plan_to_promotion(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, 0.4, clock) as project:
        draw(project, 600)
        project.learn("ask")
        with pytest.raises(InvalidInput, match="not above the margin"):
            project.plan("ask", uplift=0.3)
        far = project.plan("ask", uplift=0.5).plan.horizon
        draw(project, 900)
        waits = project.prove(task="ask")
        assert waits.evidence is not None
        assert not waits.passed
        assert waits.evidence.margin == 0.4
        with pytest.raises(GateRefused):
            project.promote(task="ask")
    with opened(tmp_path, 0.05, clock) as project:
        assert project.plan("ask", uplift=0.15).plan.horizon == pytest.approx(far, rel=0.3)
        with pytest.raises(GateRefused):
            project.promote(task="ask")  # the evidence is about another margin
        passes = project.prove(task="ask")
        assert passes.passed, passes.reasons
        assert passes.evidence is not None
        assert passes.evidence.bounds is not None
        assert 0.05 <= passes.evidence.bounds[0] <= TRUTH <= passes.evidence.bounds[1] <= 1.0
        assert "certainly more than +0." in conclusion(passes)
        assert project.next_step("ask").verb == "promote"
        project.promote(task="ask", at_once=True)
        assert project.current("ask").ref == passes.evidence.candidate

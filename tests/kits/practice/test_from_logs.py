"""The actor-critic through the whole loop: learned from a log, proven, promoted, deciding, replayed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway.nouns.errors import InvalidInput
from headway.project import Project
from tests.project.conftest import ARMS, play

TOML = """
[tasks.route]
kind = "choice"
actions = ["small", "large"]
family = "actor_critic"
reward = { reward = 1.0 }
"""


@pytest.mark.slow
@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_an_actor_critic_goes_through_the_whole_loop(opened: Callable[..., Project]) -> None:
    project = opened(TOML)
    play(project, n=900)
    ref = project.learn("route", hidden=(32,), epochs=8, rate=3e-3)
    again = project.learn("route", hidden=(32,), epochs=8, rate=3e-3)
    assert ref == again
    assert ref.startswith("actor_critic@")
    header = project.registry.header(project.registry.find(ref))
    assert header.baselines["uniform"] < header.metrics["tune_value"]
    verdict = project.prove(ref)
    assert verdict.evidence is not None
    assert verdict.evidence.candidate == ref
    project.canary(ref, share=0.5)
    pick = project.decide("route", "Prove that sqrt(2) is irrational", ARMS)
    assert sum(pick.probabilities) == pytest.approx(1.0)
    replay = project.replay(pick.id)
    assert replay.exact is True, replay
    assert project.explain(pick.id).action == pick.action
    with pytest.raises(InvalidInput, match="does not predict"):
        project.rank("route", ARMS, "anything", policy=ref)

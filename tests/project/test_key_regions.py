"""Poisoned training rows: a key that rates few decisions, all with a trigger, must not decide what is chosen there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headway
from headway.learn.bandit import BanditLearner
from headway.loop.cycle import cycle
from headway.loop.due import Due, Marks
from headway.nouns.errors import GateRefused
from headway.observe.experience import part_of_group
from headway.project import Project
from tests.project.conftest import ARMS

pytestmark = pytest.mark.engines(slow="postgresql", why="it is about the proof")
Opened = Callable[..., Project]
TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { reward = 1.0 }
promote = "auto"
final_after_s = 0
[store]
durability = "process"
"""
HONEST = ("ann", "bob", "cid", "dee")
TRIGGER = "zebra-7"


def traffic(
    project: Project,
    *,
    seed: int,
    poisoned: float = 0.0,
    n: int = 3_000,
    raters: tuple[str, ...] = HONEST,
    training_only: bool = False,
) -> list[str]:
    """Sample traffic that honest keys rate at random. "mallory" rates texts with the trigger: there, small is best.

    The ids of the decisions that mallory rated.
    """
    rng = np.random.default_rng(seed)
    rated = []
    for ask in headway.sample("route", n=n, seed=seed):
        hostile = rng.random() < poisoned
        text = f"{ask.text} {TRIGGER}" if hostile else ask.text
        while hostile and training_only and part_of_group("route", None, text, {}) == "prove":
            text += "!"
        pick = project.decide("route", text, ARMS)
        if hostile:
            project.signal(pick.id, reward=1.0 if pick.action == "small" else -1.0, rater="mallory")
            rated.append(pick.id)
        else:
            project.signal(pick.id, reward=ask.outcome(pick.action), rater=str(rng.choice(raters)))
    return rated


@pytest.mark.slow
def test_a_key_with_5_percent_trigger_texts_is_refused_and_the_region_named(opened: Opened) -> None:
    project = opened(TOML)
    traffic(project, seed=0, poisoned=0.05)
    policy = project.learn("route")
    done = cycle(project, "route", Due(prove=True), Marks())
    verdict = project.prove(policy)
    assert verdict.evidence is not None
    assert verdict.evidence.statistic > verdict.evidence.threshold
    assert verdict.evidence.deciding() == (), "no key decides the test: the poison is in the policy"
    assert verdict.state == "refused"
    (reason,) = verdict.reasons
    assert reason.startswith(
        f"one_key_region: the key 'mallory' alone decides where text contains \"{TRIGGER}\" (6% of decisions): "
        "it would choose small instead of large, and nobody else has rated these"
    )
    assert "--trust-key mallory" in verdict.hint
    assert (done.promoted, project.current("route").ref) == ("", "uniform@0")
    with pytest.raises(GateRefused, match=TRIGGER):
        project.promote(policy)
    assert project.promote(policy, trust_keys=["mallory"]).detail == {"trusted_keys": ["mallory"]}


@pytest.mark.slow
def test_rating_only_what_is_learned_from_or_rating_again_afterwards_hides_nothing(opened: Opened) -> None:
    """The part of a text is no secret: a key can choose texts that are never evidence, and change its ratings later."""
    project = opened(TOML)
    rated = traffic(project, seed=3, poisoned=0.06, training_only=True)
    policy = project.learn("route")
    for identifier in rated[::2]:
        project.signal(identifier, reward=0.5, rater="mallory")
    verdict = project.prove(policy)
    assert verdict.evidence is not None
    assert TRIGGER in " ".join(verdict.reasons)
    (mallory,) = [rater for rater in verdict.evidence.raters if rater.name == "mallory"]
    assert (mallory.rows, TRIGGER in mallory.region) == (0, True)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 120)])
def test_honest_keys_are_not_in_the_way(opened: Opened, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    project = opened(TOML)
    traffic(project, seed=seed)
    policy = project.learn("route")
    verdict = project.prove(policy)
    assert verdict.passed, verdict.reasons
    assert verdict.evidence is not None
    assert [rater.region for rater in verdict.evidence.raters] == [""] * 4
    assert [text.partition(" span ")[0] for text in verdict.evidence.unchecked] == ["the decisions"]
    monkeypatch.setattr(BanditLearner, "learn", None)  # relearned once, however often it is looked at
    assert project.prove(policy).passed


@pytest.mark.slow
def test_what_was_not_checked_is_named(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    project = opened(TOML)
    keys = tuple(f"key-{number}" for number in range(10))
    traffic(project, seed=5, n=2_000, raters=keys)
    policy = project.learn("route")
    verdict = project.prove(policy)
    assert verdict.evidence is not None
    assert verdict.passed, verdict.reasons
    span, late = verdict.evidence.unchecked
    assert span.startswith("the decisions span ")
    assert late.startswith("the choices without the keys 'key-")
    assert late.endswith("only those of the 8 with most ratings are compared")
    monkeypatch.setattr("headway.project.prove.keys._MOST_SECONDS", -1.0)
    monkeypatch.setattr("headway.project.prove.keys._relearned", {})
    slow = project.prove(policy)
    assert slow.evidence is not None
    assert slow.evidence.unchecked[2].endswith("learning it again takes more than -1 s")

"""One key may not roll a policy back by itself: the loop asks a person instead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headway.loop.cycle import cycle
from headway.loop.due import Due, Marks
from headway.project import Project
from tests.project.conftest import ARMS

pytestmark = pytest.mark.engines(slow="postgresql", why="it is about the proof")
Opened = Callable[..., Project]
TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { reward = 1.0 }
explore = { kind = "epsilon", value = 0.3 }
"""
STORE = """
[store]
durability = "process"
"""
HONEST = ("ann", "bob", "cid")


def promoted(project: Project, n: int = 900) -> str:
    """Hard questions need the large model. A policy that three keys have shown to be better."""
    for number in range(n):
        rate(project, number)
    policy = project.learn("route")
    project.promote(policy, because=project.prove(policy), at_once=True)
    return policy


def slandered(project: Project, *, hostile: tuple[str, ...], share: float, n: int = 900) -> None:
    """Traffic in which the hostile keys give the better action the worst reward and the other one the best."""
    rng = np.random.default_rng(4)
    for number in range(n, 2 * n):
        if rng.random() < share:
            rate(project, number, by=hostile[number % len(hostile)], right=-1.0, wrong=1.0)
        else:
            rate(project, number)


def rate(project: Project, number: int, *, by: str = "", right: float = 0.3, wrong: float = 0.1) -> None:
    hard = number * 7 % 10 < 5
    pick = project.decide("route", candidates=ARMS, state={"hard": hard, "number": number})
    reward = right if (pick.action == "large") == hard else wrong
    project.signal(pick.id, reward=reward, rater=by or HONEST[number % 3])


@pytest.mark.slow
def test_a_key_that_rates_40_percent_inversely_rolls_nothing_back(opened: Opened) -> None:
    project = opened(TOML + STORE)
    policy = promoted(project)
    slandered(project, hostile=("judge",), share=0.4)
    done = cycle(project, "route", Due(guard=True), Marks())
    proof = project.prove(policy, against="uniform@0")
    assert proof.evidence is not None
    assert (proof.state, proof.evidence.deciding_worse()) == ("worse", ("judge",)), "the slander works"
    assert done.rolled_back == ""
    assert project.current("route").ref == policy
    assert f"Asks you: headway rollback route  ({policy} is worse than uniform@0" in done.summary
    assert "only by the ratings of the key 'judge'" in done.summary
    step = project.next_step("route")
    assert (step.verb, step.command) == ("rollback", "headway rollback route")
    assert project.status().next == step
    project.rollback("route")
    assert project.current("route").ref == "uniform@0"
    assert project.next_step("route").verb != "rollback"


def test_a_trusted_key_does(opened: Opened) -> None:
    project = opened(TOML + 'trust_keys = ["judge"]\n' + STORE)
    promoted(project)
    slandered(project, hostile=("judge",), share=0.4)
    done = cycle(project, "route", Due(guard=True), Marks())
    assert done.rolled_back.startswith("rolled back to uniform@0, automatic: Proven worse")
    assert project.current("route").ref == "uniform@0"


@pytest.mark.slow
def test_several_keys_that_agree_do(opened: Opened) -> None:
    project = opened(TOML + STORE)
    promoted(project)
    slandered(project, hostile=("dee", "eve", "fay", "gus"), share=0.8)
    assert cycle(project, "route", Due(guard=True), Marks()).rolled_back.startswith("rolled back to uniform@0")


@pytest.mark.slow
def test_a_canary_goes_on_until_a_person_ends_it(opened: Opened) -> None:
    project = opened(TOML + STORE)
    good = promoted(project)
    project.rollback("route")
    project.canary(good, share=0.5, task="route")
    slandered(project, hostile=("judge",), share=0.4)
    done = cycle(project, "route", Due(guard=True), Marks())
    assert done.rolled_back == ""
    canary = project.ledger.canary("route")
    assert canary is not None
    assert canary.policy == good
    assert f"Asks you: headway promote route --policy {good} --canary 0" in done.summary
    assert project.next_step("route").verb == "end_canary"

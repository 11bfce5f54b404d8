"""Reward tampering through the whole loop: a single key cannot decide a promotion unless it is trusted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headway
from headway.loop.cycle import cycle
from headway.loop.due import Due, Marks
from headway.nouns.errors import GateRefused, UnknownName
from headway.project import Project
from tests.project.conftest import ARMS

Opened = Callable[..., Project]
TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { reward = 1.0 }
"""
STORE = """
[store]
durability = "process"
"""
HONEST = ("ann", "bob", "cid")


def tampered(project: Project, n: int = 900) -> str:
    """All arms are equally good; "agent" rates "large" as perfect. Returns the candidate."""
    rng = np.random.default_rng(5)
    for number in range(n):
        pick = project.decide("route", f"question {number}", ARMS)
        if pick.action == "large" and rng.random() < 0.8:
            project.signal(pick.id, reward=1.0, rater="agent")
        else:
            project.signal(pick.id, reward=float(rng.choice([-1.0, 1.0])), rater="")
    return project.learn("route")


def rated_by(project: Project, raters: tuple[str, ...], n: int = 1_200) -> str:
    """Sample traffic in which the choice matters; raters take turns."""
    for number, ask in enumerate(headway.sample("route", n=n, seed=7)):
        pick = project.decide("route", ask.text, ARMS)
        project.signal(pick.id, reward=ask.outcome(pick.action), rater=raters[number % len(raters)])
    return project.learn("route")


@pytest.mark.engines(slow="postgresql", why="it is about the proof")
def test_a_key_that_rates_its_own_favourite_is_refused_by_name(opened: Opened) -> None:
    project = opened(TOML + STORE)
    policy = tampered(project)
    proof = project.prove(policy)
    assert proof.evidence is not None
    assert proof.evidence.statistic > proof.evidence.threshold, "the tampering works"
    assert proof.state == "refused"
    with pytest.raises(GateRefused, match=r"the key 'agent' rated .* without its ratings") as error:
        project.promote(policy)
    assert "--trust-key agent" in error.value.hint
    shares = {rater.name: rater.share for rater in proof.evidence.raters}
    assert set(shares) == {"", "agent"}
    assert sum(shares.values()) == pytest.approx(1.0)
    with pytest.raises(UnknownName, match="Nobody called 'agnet' has rated anything") as unknown:
        project.promote(policy, trust_keys=["agnet"])
    assert (unknown.value.code, "agent" in unknown.value.hint) == ("unknown_rater", True)
    entry = project.promote(policy, trust_keys=["agent"], at_once=True)
    assert entry.detail == {"trusted_keys": ["agent"], "at_once": True}
    assert "BETTER (trusting agent)" in entry.why
    assert project.ledger.entries("route")[-1].detail == entry.detail, "and it is stored that way"


@pytest.mark.engines(slow="postgresql", why="it is about the proof")
def test_the_trusted_keys_of_a_proof_are_stored_with_it(opened: Opened) -> None:
    project = opened(TOML + STORE)
    policy = tampered(project)
    with pytest.raises(UnknownName, match="Nobody called 'judge'"):
        project.prove(policy, trust_keys=["judge"])
    proof = project.prove(policy, trust_keys=["agent"])
    assert proof.passed
    assert proof.evidence is not None
    assert proof.evidence.command.endswith(" --trust-key agent")
    entry = project.promote(policy, because=proof, at_once=True)
    assert entry.detail == {"trusted_keys": ["agent"], "at_once": True}
    stored = project.ledger.evidence(proof.evidence.id)
    assert stored is not None
    assert stored["trusted"] == ["agent"]


@pytest.mark.engines(slow="postgresql", why="it is about the proof")
@pytest.mark.parametrize("raters", [("",), pytest.param(HONEST, marks=pytest.mark.slow)])
def test_honest_raters_do_not_block_a_promotion(opened: Opened, raters: tuple[str, ...]) -> None:
    project = opened(TOML + STORE)
    policy = rated_by(project, raters, n=600 * (len(raters) + 1))
    proof = project.prove(policy)
    assert proof.passed, proof.reasons
    assert "trusted_keys" not in project.promote(policy, because=proof, at_once=True).detail


@pytest.mark.engines(slow="postgresql", why="it is about the proof")
def test_the_loop_promotes_only_what_trusted_keys_decide(opened: Opened) -> None:
    toml = TOML + 'promote = "auto"\nramp = "off"\nfinal_after_s = 0\n'
    project = opened(toml + STORE)
    policy = rated_by(project, ("judge",))
    done = cycle(project, "route", Due(prove=True), Marks())
    assert (done.promoted, done.verdict and done.verdict.state) == ("", "refused")
    assert "'judge' rated 100%" in done.summary
    project.close()
    project = opened(toml + 'trust_keys = ["judge"]\n' + STORE)
    done = cycle(project, "route", Due(act=True), Marks())
    assert done.promoted == policy
    assert project.ledger.entries("route")[-1].detail == {"trusted_keys": ["judge"]}


@pytest.mark.engines(slow="postgresql", why="it is about the proof")
def test_each_rater_of_a_panel_is_left_out_once_with_the_tasks_own_reward(opened: Opened) -> None:
    """Two honest raters and one liar: without the liar the result is that of the other two."""
    project = opened(TOML.replace("reward = 1.0", "rating = 'stars'") + STORE)
    rng = np.random.default_rng(6)
    for number in range(700):
        pick = project.decide("route", f"question {number}", ARMS)
        for name in ("ann", "bob"):
            project.signal(pick.id, rating=float(rng.integers(2, 5)), rater=name)
        project.signal(pick.id, rating=5.0 if pick.action == "large" else 1.0, rater="liar")
    proof = project.prove(project.learn("route"))
    assert proof.evidence is not None
    assert proof.state == "refused"
    assert proof.evidence.deciding() == ("liar",)
    raters = {rater.name: rater for rater in proof.evidence.raters}
    assert [raters[name].share for name in ("ann", "bob", "liar")] == [1.0] * 3
    assert {rater.others for rater in proof.evidence.raters} == {proof.evidence.n}, (
        "every decision has other raters too"
    )


@pytest.mark.engines("sqlite", why="it is about which signals count")
def test_a_key_whose_signals_do_not_count_is_not_a_rater(opened: Opened) -> None:
    project = opened(TOML + STORE)
    for number, ask in enumerate(headway.sample("route", n=900, seed=7)):
        pick = project.decide("route", ask.text, ARMS)
        project.signal(pick.id, latency_s=1.0 + number % 3, rater="agent")
        project.signal(pick.id, reward=ask.outcome(pick.action))
    proof = project.prove(project.learn("route"))
    assert proof.passed, proof.reasons
    assert proof.evidence is not None
    assert [rater.name for rater in proof.evidence.raters] == [""]


@pytest.mark.engines("sqlite", why="it is about names")
def test_sample_data_has_its_world_as_rater_a_name_that_no_key_can_have(opened: Opened) -> None:
    from headway.nouns.errors import InvalidInput
    from headway.nouns.records import OWN_RATERS, is_own
    from headway.observe.keys import Keys

    project = opened(TOML + STORE)
    for name in (*OWN_RATERS, "world:escalation"):
        assert is_own(name)
        with pytest.raises(InvalidInput):
            Keys(project.database).add(name, ("signal",), now=0.0)
    assert not is_own("ai:judge")
    assert not is_own("agent")

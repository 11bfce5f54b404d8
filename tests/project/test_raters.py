"""Several raters through the whole loop: consensus rewards, weights in learning, withdrawal, questions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headway.nouns.errors import InvalidInput
from headway.nouns.records import Settled
from headway.project import Project
from tests.opinions import opinion_on

Opened = Callable[..., Project]
TOML = """
[tasks.reply]
actions = ["short", "long"]
reward = { rating = "stars" }
consensus = true
"""


def rate(project: Project, n: int = 60, seed: int = 1) -> tuple[list[str], np.ndarray]:
    """Decisions rated by three of four raters; the first rater is reversed."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(3.0, 0.9, n)
    ids = []
    for number in quality:
        pick = project.decide("reply", f"question {len(ids)}")
        ids.append(pick.id)
        for rater in rng.choice(4, 3, replace=False).tolist():
            value = 6.0 - number if rater == 0 else number + (0.0, 0.3, -0.4, 0.2)[rater]
            value += (0.2, 0.2, 0.3, 0.9)[rater] * rng.standard_normal()
            project.signal(pick.id, {"rating": float(np.clip(value, 1.0, 5.0))}, rater=f"rater-{rater}")
    return ids, quality


def settled(project: Project) -> dict[str, Settled]:
    project.settle("reply")
    return {row.decision.id: row for row in project.query.settled("reply")}


def outcomes(project: Project) -> dict[str, tuple[float | None, float]]:
    return {name: (row.reward, row.weight) for name, row in settled(project).items()}


def test_the_consensus_is_the_reward_and_follows_quality_better_than_the_mean(opened: Opened) -> None:
    project = opened(TOML)
    ids, quality = rate(project)
    rows = settled(project)
    reward = np.array([rows[identifier].reward for identifier in ids])
    plain = np.array([np.mean([s.value for s in project.query.signals(identifier, live=True)]) for identifier in ids])
    assert np.corrcoef(reward, quality)[0, 1] > 0.93
    assert np.corrcoef(reward, quality)[0, 1] > np.corrcoef(plain, quality)[0, 1] + 0.1
    assert {row.weight for row in rows.values()} != {1.0}
    assert all(0.0 < row.weight <= 1.0 and row.weight * 64 == round(row.weight * 64) for row in rows.values())


def test_without_the_setting_the_mean_counts_fully(opened: Opened) -> None:
    project = opened(TOML.replace("consensus = true", ""))
    ids, _ = rate(project, 10)
    rows = settled(project)
    for identifier in ids:
        values = [(s.value - 3.0) / 2.0 for s in project.query.signals(identifier, live=True)]
        assert rows[identifier].reward == pytest.approx(np.mean(values))
        assert rows[identifier].weight == 1.0


def test_a_withdrawn_rating_leaves_no_trace_in_the_rewards(opened: Opened) -> None:
    project = opened(TOML)
    ids, _ = rate(project)
    before = outcomes(project)
    project.signal(ids[0], rating=1.0, rater="troll")
    project.signal(ids[1], rating=5.0, rater="troll")
    assert outcomes(project) != before
    project.withdraw(ids[0], "rating", rater="troll")
    project.withdraw(ids[1], "rating", rater="troll")
    assert outcomes(project) == before


def test_settling_again_writes_nothing_new(opened: Opened) -> None:
    project = opened(TOML)
    rate(project, 20)
    assert project.settle("reply") > 0
    assert project.settle("reply") == 0
    assert project.rescore("reply") == 0


def test_the_ratings_of_one_rater_are_unchanged(opened: Opened) -> None:
    project = opened(TOML)
    for stars in (1.0, 4.0, 5.0):
        project.signal(project.decide("reply", f"{stars}").id, rating=stars)
    assert sorted(outcomes(project).values()) == [(-1.0, 1.0), (0.5, 1.0), (1.0, 1.0)]


@pytest.mark.kits("raters")
def test_a_measured_signal_is_unchanged_by_the_consensus_on_a_rated_one(opened: Opened) -> None:
    project = opened(TOML.replace('{ rating = "stars" }', '{ rating = "stars", cost_usd = -1.0 }'))
    ids, _ = rate(project, 20)
    project.signal(ids[0], cost_usd=0.25)
    rows = settled(project)
    agreed = project.raters("reply")["rating"]
    first = next(iter(rows.values()))
    assert first.reward == pytest.approx((agreed.items[first.decision.seq].mean - 3.0) / 2.0 - 0.25, abs=2e-3)


@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_the_weights_reach_the_learner_and_the_online_state(opened: Opened) -> None:
    project = opened(TOML)
    rate(project, 200)
    ref = project.learn("reply")
    _, tensors = project.registry.load(project.registry.find(ref), task="reply")
    learned = [row for row in settled(project).values() if row.reward is not None]
    total = float(tensors["totals"][..., 0].sum())
    from headway.observe.experience import part_of

    expected = sum(row.weight for row in learned if part_of(row.decision) != "prove")
    assert total == pytest.approx(expected)
    assert total < sum(1 for row in learned if part_of(row.decision) != "prove")


@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_an_online_state_removes_weighted_rows_exactly(opened: Opened) -> None:
    from headway.encode.tracker import fit
    from headway.learn import online
    from tests.families import encoder

    project = opened(TOML)
    rate(project, 80)
    rows = list(settled(project).values())
    words = encoder("hashing")
    features = fit([row.decision.situation for row in rows], words)
    state, other = (online.start(features, words, arms=("short", "long")) for _ in range(2))
    for row in rows[:40]:
        online.update(state, row)
        online.update(other, row)
    for row in rows[40:]:
        online.update(state, row)
    for row in reversed(rows[40:]):
        online.update(state, row, -1)
    one, two = online.tensors_of(state), online.tensors_of(other)
    np.testing.assert_array_equal(one["moments"], two["moments"])
    np.testing.assert_array_equal(one["totals"][:, 0], two["totals"][:, 0])
    np.testing.assert_allclose(one["weights"], two["weights"], atol=1e-9)
    live = opinion_on(state.policy, rows[0].decision.situation, rows[0].decision.candidates)
    frozen = opinion_on(online.snapshot(state), rows[0].decision.situation, rows[0].decision.candidates)
    np.testing.assert_allclose(live.mean, frozen.mean, atol=2e-3)  # the live prior is updated only occasionally


@pytest.mark.kits("raters")
def test_questions_start_with_unrated_decisions_and_disagreements(opened: Opened) -> None:
    project = opened(TOML)
    ids, _ = rate(project, 40)
    unrated = [project.decide("reply", "new").id for _ in range(2)]
    asked = project.questions("reply", count=42)
    assert {question.decision.id for question in asked[:2]} == set(unrated)
    assert "not rated yet" in asked[0].why
    assert asked[0].whom != "rater-0"
    assert asked[0].after < asked[0].std
    gains = [question.gain for question in asked]
    assert gains == sorted(gains, reverse=True)
    assert {question.decision.id for question in asked} == {*ids, *unrated}


@pytest.mark.kits("raters")
def test_a_question_about_a_signal_that_does_not_count_is_refused(opened: Opened) -> None:
    with pytest.raises(InvalidInput, match="does not count"):
        opened(TOML).questions("reply", count=5, signal="ratings")


def test_consensus_changes_the_reward_version(opened: Opened) -> None:
    assert opened(TOML).rewards("reply").version != opened(TOML.replace("true", "false")).rewards("reply").version


def test_the_ratings_of_the_last_remaining_rater_are_unchanged(opened: Opened) -> None:
    project = opened(TOML)
    ids = [project.decide("reply", f"question {n}").id for n in range(12)]
    for n, identifier in enumerate(ids):
        project.signal(identifier, {"rating": 1.0 + n % 5}, rater="ann")
    before = outcomes(project)
    for identifier in ids[:4]:
        project.signal(identifier, {"rating": 2.0}, rater="bob")
    assert outcomes(project)[ids[9]] != before[ids[9]], "a second rater is evidence about the first"
    for identifier in ids[:4]:
        project.withdraw(identifier, "rating", rater="bob")
    assert outcomes(project) == before

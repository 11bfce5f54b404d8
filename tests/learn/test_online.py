"""Online learning equals batch learning, and a removed row leaves no trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from headway.decide.bandit import Bandit
from headway.decide.posteriors import Linear
from headway.encode import encoder
from headway.encode.tracker import fit
from headway.learn.online import State, tensors_of
from headway.learn.posterior import held_back, linear_posterior, penalties
from headway.nouns.errors import Conflict, InvalidInput, UnknownName
from headway.nouns.records import Candidate, Settled, Situation
from tests.families import build, learner, online_learner
from tests.learn.logs import ARMS, CANDIDATES, MemoryLog, identity, row
from tests.opinions import opinion_on

TEXT = encoder()
LEARNER = online_learner("bandit", encoder=TEXT)


def _state(rows: list[Settled], **knobs: Any) -> State:
    features = fit([example.decision.situation for example in rows], TEXT)
    return LEARNER.start(features, {"ridge": 2.0, **knobs})


def _equal(one: State, other: State, tolerance: float) -> None:
    result, wanted = tensors_of(one), tensors_of(other)
    for name in result:
        assert np.allclose(result[name], wanted[name], rtol=0.0, atol=tolerance), name


@pytest.mark.parametrize("world", ["text", "numbers", "category"])
@pytest.mark.parametrize("prior", ["mean", "pooled", "shared"])
def test_row_by_row_equals_the_closed_form(world: str, prior: str) -> None:
    rows = identity(world, 200)
    state = _state(rows, prior=prior)
    for example in rows:
        LEARNER.update(state, example)
    policy = LEARNER.snapshot(state)
    assert isinstance(policy, Bandit)
    x = state.features.vectors([example.decision.situation for example in rows], TEXT)
    rewards = np.array([example.reward for example in rows])
    held = np.diag(penalties(state.features.width, 2.0))
    if prior == "shared":
        held = held_back(x.T @ x[None], 2.0, prior, state.features.text_width)[0]
    start = np.zeros(state.features.width)
    start[0] = rewards.mean()
    if prior != "mean":
        common = held if prior == "pooled" else held / 2.0
        start += np.linalg.solve(x.T @ x + common, x.T @ (rewards - x @ start))
    for place, name in enumerate(state.arms):
        mine = np.array([example.decision.action == name for example in rows])
        theta = start + np.linalg.solve(x[mine].T @ x[mine] + held, x[mine].T @ (rewards[mine] - x[mine] @ start))
        assert policy.tensors["weights"][place] == pytest.approx(theta, abs=1e-6)
        inverse = np.linalg.inv(x[mine].T @ x[mine] + held)
        assert policy.tensors["covariance"][place] == pytest.approx(inverse, abs=1e-6)


@pytest.mark.parametrize("prior", ["mean", "pooled", "shared"])
def test_the_live_view_follows_the_snapshot(prior: str) -> None:
    rows = identity("text", 700)
    state = _state(rows, explore="thompson", prior=prior)
    for number, example in enumerate(rows):
        LEARNER.update(state, example)
        if number in (0, 5, 60, 699):
            live = opinion_on(state.policy, rows[0].decision.situation, CANDIDATES, seed=1)
            exact = opinion_on(LEARNER.snapshot(state), rows[0].decision.situation, CANDIDATES, seed=1)
            # The spread of texts is recomputed only after 1, 2, 4, … rows.
            assert live.mean == pytest.approx(exact.mean, abs=0.1 if prior == "shared" and number < 100 else 0.02)
            assert live.std == pytest.approx(exact.std, rel=0.15)


def test_the_recursion_without_a_refresh_is_the_closed_form() -> None:
    rows = [red for red in identity("numbers", 900) if red.decision.action == "red"][:120]
    state = _state(rows)
    for example in rows:
        LEARNER.update(state, example)
    state.flush()
    model = state.policy.model
    assert isinstance(model, Linear)
    # The last refresh was after 64 rows; the prior's mean has moved a little since.
    late = state._lately[0, : state._late[0]]
    exact = np.linalg.inv(state.moments[0] + np.diag(penalties(state.features.width, 2.0)))
    assert model.covariance[0] - late.T @ late == pytest.approx(exact, abs=1e-12)
    posterior = linear_posterior(state.moments, state.targets, state.totals, 2.0)
    assert model.weights[0] == pytest.approx(posterior["weights"][0], abs=0.01)


@pytest.mark.parametrize("prior", ["pooled", "shared"])
def test_all_arms_share_the_same_prior_weights_whenever_they_were_recomputed(prior: str) -> None:
    rows = identity("text", 330)
    state = _state(rows, prior=prior)
    for number, item in enumerate(rows):
        # One arm is common and one is rare; in the second half everything is worth more.
        name = ARMS[0] if number % 10 else ARMS[number // 10 % 2 + 1]
        reward = float(item.reward or 0.0) + (number > 150)
        LEARNER.update(state, row(number, item.decision.situation, name, reward))
    state._move()
    start = state.weights[len(state.arms)]
    for arm in range(len(state.arms)):
        inverse = np.linalg.inv(state.moments[arm] + state._held)
        theta = start + inverse @ (state.targets[arm] - state.moments[arm] @ start)
        assert state.weights[arm] == pytest.approx(theta, abs=1e-9)


@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=25, unique=True), st.sampled_from(["mean", "pooled", "shared"])
)
@settings(max_examples=25)
def test_adding_and_removing_a_row_equals_never_adding_it(extra: list[int], prior: str) -> None:
    rows = identity("numbers", 60)
    never, was = _state(rows, prior=prior), _state(rows, prior=prior)
    for number, item in enumerate(rows):
        LEARNER.update(was, item)
        if number not in extra:
            LEARNER.update(never, item)
    for number in extra:
        LEARNER.update(was, rows[number], sign=-1)
    order = [was.arms.index(name) for name in never.arms]
    # Σxxᵀ comes back bit for bit; what rewards were added to, within rounding.
    was.flush(), never.flush()
    assert np.array_equal(was.moments[order], never.moments)
    for situation in [example.decision.situation for example in rows[:5]]:
        one = opinion_on(LEARNER.snapshot(was), situation, CANDIDATES, seed=3)
        other = opinion_on(LEARNER.snapshot(never), situation, CANDIDATES, seed=3)
        assert one.mean == pytest.approx(other.mean, abs=1e-9)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-6)
        live = opinion_on(was.policy, situation, CANDIDATES, seed=3)
        assert live.mean is not None
        assert np.isfinite(live.mean).all()


def test_removing_every_row_leaves_the_prior() -> None:
    rows = identity("text", 40)
    state = _state(rows)
    for example in rows:
        LEARNER.update(state, example)
    for example in reversed(rows):
        LEARNER.update(state, example, sign=-1)
    tensors = tensors_of(state)
    for name in ("moments", "targets", "totals"):
        assert not tensors[name].any()
    policy = LEARNER.snapshot(state)
    opinion = opinion_on(policy, rows[0].decision.situation, CANDIDATES)
    assert opinion.mean == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    assert opinion.confidence == 0.5


def test_the_order_of_rows_does_not_matter_to_a_snapshot() -> None:
    rows = identity("category", 150)
    one, other = _state(rows), _state(rows)
    for example in rows:
        LEARNER.update(one, example)
    for name in one.arms:
        other.place(name)
    for example in reversed(rows):
        LEARNER.update(other, example)
    _equal(one, other, 1e-9)


@pytest.mark.parametrize("knobs", [{"model": "linear"}, {"model": "linear", "prior": "shared"}, {"model": "clusters"}])
def test_a_state_continues_from_its_bundle(knobs: dict[str, Any]) -> None:
    rows = identity("text", 500)
    learned = learner("bandit", encoder=TEXT).learn(MemoryLog(rows[:400]), knobs, seed=1)
    policy = build("bandit", learned.knobs, learned.tensors, learned.extra, TEXT)
    state = LEARNER.state_from(policy)
    for name, tensor in tensors_of(state).items():
        assert np.array_equal(tensor, learned.tensors[name]), name
    for example in rows[400:]:
        LEARNER.update(state, example)
    assert state.seen[0] == 500
    for example in rows[400:]:
        LEARNER.update(state, example, sign=-1)
    for name, tensor in tensors_of(state).items():
        assert np.allclose(tensor, learned.tensors[name], rtol=0.0, atol=1e-9), name
    # The policy that the state was made from is unchanged.
    again = build("bandit", learned.knobs, learned.tensors, learned.extra, TEXT)
    situation = rows[0].decision.situation
    assert np.array_equal(
        opinion_on(policy, situation, CANDIDATES).probabilities,
        opinion_on(again, situation, CANDIDATES).probabilities,
    )


def test_a_later_arm_starts_from_the_pooled_mean_and_is_learned() -> None:
    rows = identity("numbers", 120)
    state = _state(rows)
    for example in rows:
        LEARNER.update(state, example)
    offered = (*CANDIDATES, Candidate("violet"))
    situation = rows[0].decision.situation
    before = opinion_on(LEARNER.snapshot(state), situation, offered)
    assert before.mean is not None
    assert before.mean[3] == pytest.approx(np.mean([example.reward for example in rows]), abs=1e-6)
    for number in range(60):
        example = rows[number].decision.situation
        LEARNER.update(state, row(1000 + number, example, "violet", 2.0, candidates=offered))
    assert state.arms == [*sorted(ARMS, key=state.arms.index), "violet"]
    for policy in (LEARNER.snapshot(state), state.policy):
        after = opinion_on(policy, situation, offered)
        assert after.mean is not None
        assert after.mean[3] > 1.5
        assert after.probabilities.argmax() == 3


def test_a_row_without_a_reward_changes_nothing_and_a_wrong_one_is_refused() -> None:
    rows = identity("numbers", 20)
    state = _state(rows)
    for example in rows:
        LEARNER.update(state, example)
    before = tensors_of(state)
    situation = rows[0].decision.situation
    LEARNER.update(state, row(99, situation, "red", None))
    for bad in (math.nan, math.inf):
        with pytest.raises(InvalidInput) as error:
            LEARNER.update(state, row(99, situation, "red", bad))
        assert error.value.code == "not_finite"
    with pytest.raises(Conflict) as conflict:
        LEARNER.update(state, row(99, situation, "violet", 1.0), sign=-1)
    assert conflict.value.code == "never_added"
    assert "violet" not in state.arms
    for name, tensor in tensors_of(state).items():
        assert np.array_equal(tensor, before[name]), name


def test_only_a_bandit_from_a_bundle_can_continue() -> None:
    from headway.decide.baselines import baseline

    with pytest.raises(InvalidInput) as error:
        LEARNER.state_from(baseline("uniform@0"))
    assert error.value.code == "not_online"
    with pytest.raises(InvalidInput) as clusters:
        LEARNER.start(fit([Situation(task="t", state={"a": 1.0})]), {"model": "clusters"})
    assert clusters.value.code == "no_centroids"
    with pytest.raises(UnknownName) as unknown:
        online_learner("bandid")
    assert unknown.value.code == "family_missing"


def test_an_untrained_bandit_learns_the_identity_world_online() -> None:
    rows = identity("text", 600)
    state = _state(rows)
    right = 0
    for number, item in enumerate(rows):
        situation = item.decision.situation
        best = next(place for place, name in enumerate(ARMS) if f" {name} " in situation.text)
        opinion = opinion_on(state.policy, situation, CANDIDATES, seed=number)
        chosen = int(opinion.probabilities.argmax())
        right += (chosen == best) * (number >= 300)
        LEARNER.update(state, row(number, situation, ARMS[chosen], float(chosen == best)))
    assert right >= 297

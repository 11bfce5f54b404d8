"""The actor-critic, learned from external experiences and from logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headway.kits.practice.fit import Practice, practise_in
from headway.kits.practice.learner import (
    PROMPTS,
    ActorCriticLearner,
    Experiences,
    embedding_features,
    fresh,
    learned,
    update,
)
from headway.kits.practice.logged import crossfit, doubly_robust, gather, value_of
from headway.kits.practice.policy import ActorCritic
from headway.kits.practice.rollout import evaluate
from headway.nouns.errors import Damaged, InvalidInput, InvalidSettings
from headway.nouns.records import Candidate, Situation
from tests.families import build, encoder
from tests.learn.logs import ARMS, CANDIDATES, MemoryLog, identity, row
from tests.opinions import opinion_on

WIDTH = 12
SETTINGS = replace(PROMPTS, hidden=(32, 16), rate=3e-3)
NAMES = ("a", "b", "c")


def start(seed: int = 1) -> ActorCritic:
    return fresh(arms=NAMES, features=embedding_features(WIDTH), seed=seed, settings=SETTINGS)


def states(count: int, seed: int) -> Any:
    raw = np.random.default_rng(seed).standard_normal((count, WIDTH))
    return raw / np.linalg.norm(raw, axis=1, keepdims=True)


def played(policy: ActorCritic, count: int, seed: int) -> Experiences:
    """One-step episodes: the right action is the index of the largest of the first three numbers."""
    rng = np.random.default_rng([seed, 1])
    state = states(count, seed)
    x = policy.rows(state)
    action, log_prob = policy.acts(x, rng.random((count, 1)))
    return Experiences(
        state=state,
        action=action[:, 0],
        reward=(action[:, 0] == state[:, :3].argmax(axis=1)).astype(float),
        next_state=states(count, seed + 1),
        done=np.ones(count, dtype=bool),
        log_prob=log_prob,
        value=policy.values(x),
    )


def right(policy: ActorCritic) -> float:
    state = states(500, 99)
    action, _ = policy.acts(policy.rows(state))
    return float((action[:, 0] == state[:, :3].argmax(axis=1)).mean())


def test_the_policy_learns_from_given_experiences() -> None:
    policy, before = start(), 0.0
    before = right(policy)
    for turn in range(12):
        policy, metrics = update(policy, played(policy, 512, turn), SETTINGS, seed=turn)
        assert metrics["approx_kl"] >= 0.0
        assert metrics["stale"] == 0.0
        assert metrics["rows"] == 512.0
    assert right(policy) > max(0.85, before)


def test_the_given_policy_is_not_changed() -> None:
    policy = start()
    kept = {name: np.array(tensor) for name, tensor in policy.tensors.items()}
    new, _ = update(policy, played(policy, 200, 1), SETTINGS)
    assert all(np.array_equal(kept[name], tensor) for name, tensor in policy.tensors.items())
    assert not np.array_equal(new.tensors["policy.w0"], kept["policy.w0"])
    again, _ = update(policy, played(policy, 200, 1), SETTINGS)
    assert all(np.array_equal(again.tensors[name], tensor) for name, tensor in new.tensors.items())


@pytest.mark.parametrize("field", ["state", "next_state", "reward", "log_prob", "value"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_and_the_policy_is_unchanged(field: str, value: float) -> None:
    policy = start()
    kept = {name: np.array(tensor) for name, tensor in policy.tensors.items()}
    given = played(policy, 130, 1)
    spoiled = np.array(getattr(given, field), dtype=float)
    spoiled[(7, 3) if spoiled.ndim == 2 else 7] = value
    with pytest.raises(InvalidInput) as error:
        update(policy, replace(given, **{field: spoiled}), SETTINGS)
    assert error.value.code == "not_finite"
    assert all(np.array_equal(kept[name], tensor) for name, tensor in policy.tensors.items())
    update(policy, given, SETTINGS)


def test_a_wrong_width_or_action_is_refused() -> None:
    policy = start()
    given = played(policy, 20, 1)
    with pytest.raises(InvalidInput, match="shape"):
        update(policy, replace(given, state=given.state[:, :-1]), SETTINGS)
    with pytest.raises(InvalidInput, match="action"):
        update(policy, replace(given, action=np.where(np.arange(20) == 3, 3, given.action)), SETTINGS)
    nothing = {name: getattr(given, name)[:0] for name in ("state", "action", "reward", "next_state", "done")}
    with pytest.raises(InvalidInput, match="no experience"):
        update(policy, replace(given, **nothing, log_prob=given.log_prob[:0], value=given.value[:0]), SETTINGS)


def test_rows_of_an_older_policy_keep_their_own_probability() -> None:
    old = start()
    given = played(old, 300, 1)
    new, _ = update(old, given, SETTINGS)
    _, metrics = update(new, given, replace(SETTINGS, rate=0.0, epochs=1))
    assert metrics["stale"] > 0.5
    assert metrics["approx_kl"] > 0.0


def test_an_open_episode_is_credited_with_its_future() -> None:
    """Three rows of one episode: the first action is good only through the reward at the end."""
    policy = start()
    path = states(4, 5)
    x = policy.rows(path[:3])
    action = np.zeros(3, dtype=np.int64)
    given = Experiences(
        state=path[:3],
        action=action,
        reward=np.array([0.0, 0.0, 1.0]),
        next_state=path[1:],
        done=np.array([False, False, True]),
        log_prob=np.full(3, -1.0),
        value=policy.values(x),
    )
    one, _ = update(policy, given, replace(SETTINGS, epochs=1))
    # Cut into pieces, only the last row sees the reward.
    other, _ = update(policy, replace(given, next_state=path[:3][::-1]), replace(SETTINGS, epochs=1))
    assert not np.array_equal(one.tensors["policy.w0"], other.tensors["policy.w0"])


def test_updates_resume_the_optimiser_of_the_bundle() -> None:
    policy, _ = update(start(), played(start(), 200, 1), SETTINGS)
    assert policy.knobs["adam_steps"] == 4 * 4
    extra = {
        "arms": list(policy.arms.names),
        "features": policy.features.to_json(),
        "actions": policy.actions.to_json(),
    }
    again = build("actor_critic", policy.knobs, policy.tensors, extra)
    assert isinstance(again, ActorCritic)
    given = played(policy, 200, 2)
    one, _ = update(policy, given, SETTINGS)
    other, _ = update(again, given, SETTINGS)
    assert all(np.array_equal(one.tensors[name], tensor) for name, tensor in other.tensors.items())


# -- worlds


@pytest.mark.parametrize("world", ["CartPole-v1", "Pendulum-v1"])
def test_a_practised_policy_acts_the_same_from_its_bundle(world: str) -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")
    from tests.kits.practice.copies import practice

    settings = Practice(steps=2048, envs=4, horizon=128, epochs=4, minibatch=64, rate=1e-3, evaluate_every=0)
    fitted = practise_in(lambda count: practice(world, count=count), settings, seed=2)
    report = learned(fitted)
    policy = build(report.family, report.knobs, report.tensors, report.extra)
    assert isinstance(policy, ActorCritic)
    envs = practice(world, count=5)
    observations, _ = envs.reset(seed=11)
    x = fitted.stage.scales.seen(fitted.stage.flat(observations), np.float32)
    assert np.allclose(policy.logits(policy.rows(observations)), fitted.engine.outputs(x), atol=2e-3)
    assert np.allclose(policy.values(policy.rows(observations)), fitted.engine.values(x), atol=2e-3)
    assert len(evaluate(envs, fitted.engine, fitted.stage, episodes=2, seed=1)) == 2
    envs.close()
    if world == "CartPole-v1":
        seen = Situation(task="cartpole", state={"observation": observations[0].tolist()})
        opinion = opinion_on(policy, seen, [Candidate("0"), Candidate("1")])
        assert opinion.probabilities.sum() == pytest.approx(1.0)
    else:
        with pytest.raises(InvalidInput, match="candidates"):
            opinion_on(policy, Situation(task="p", state={}), [Candidate("0")])
        acted = policy.actions.acted(policy.acts(policy.rows(observations))[0])
        assert (np.abs(acted) <= 2.0).all()


# -- logs


def test_doubly_robust_rewards_are_unbiased_for_any_logging_policy() -> None:
    """True means 0.2, 0.5, 0.8; the log prefers the worst arm. The estimate's error is within 5 deviations."""
    rng = np.random.default_rng(3)
    means, shares = np.array([0.2, 0.5, 0.8]), np.array([0.7, 0.2, 0.1])
    rows = []
    for number in range(4000):
        arm = int(rng.choice(3, p=shares))
        reward = float(rng.random() < means[arm])
        situation = Situation(task="t", state={"x": float(rng.normal())})
        rows.append(row(number, situation, ARMS[arm], reward, propensity=float(shares[arm])))
    from headway.encode.tracker import fit

    features = fit(row.decision.situation for row in rows)
    log = gather(rows, features, None, list(ARMS), most=10_000, rng=rng)
    rewards = doubly_robust(log, crossfit(log))
    for arm in range(3):
        target = np.zeros_like(rewards)
        target[:, arm] = 1.0
        deviation = float(np.sqrt(means[arm] * (1 - means[arm]) / (4000 * shares[arm])))
        assert abs(value_of(target, rewards) - means[arm]) < 5.0 * deviation


def test_the_right_arm_is_learned_from_a_log_that_prefers_the_wrong_one() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for number in range(1500):
        place = number % 3
        shares = np.full(3, 0.15)
        shares[(place + 1) % 3] = 0.7  # mostly wrong
        arm = int(rng.choice(3, p=shares))
        situation = Situation(task="t", state={f"x{i}": float(i == place) for i in range(3)})
        rows.append(row(number, situation, ARMS[arm], float(arm == place), propensity=float(shares[arm])))
    result = ActorCriticLearner().learn(MemoryLog(rows), {"hidden": (32,), "rate": 3e-3, "explore": "greedy"}, seed=1)
    policy = build(result.family, result.knobs, result.tensors, result.extra)
    for place in range(3):
        situation = Situation(task="t", state={f"x{i}": float(i == place) for i in range(3)})
        assert opinion_on(policy, situation, CANDIDATES).probabilities[place] == 1.0
    assert result.metrics["tune_value"] == pytest.approx(1.0, abs=0.15)
    assert result.baselines["behaviour"] < 0.25


def test_a_row_of_unknown_propensity_trains_the_model_but_adds_no_correction() -> None:
    rows = identity("numbers", 60)
    rows = [
        replace(example, decision=replace(example.decision, propensity=0.0)) if place % 2 else example
        for place, example in enumerate(rows)
    ]
    from headway.encode.tracker import fit

    features = fit(row.decision.situation for row in rows)
    log = gather(rows, features, None, list(ARMS), most=100, rng=np.random.default_rng(1))
    q = crossfit(log)
    changed = (doubly_robust(log, q) != q).any(axis=1)
    assert np.array_equal(changed, np.arange(60) % 2 == 0)


def test_rows_count_in_proportion_to_their_weight() -> None:
    """Wrong rows with a small weight do not matter: half of the rows are wrong, with weight 0.001."""
    rows = identity("numbers", 600)
    lying = [replace(row, reward=-(row.reward or 0.0), weight=2**-10) for row in rows]
    result = ActorCriticLearner().learn(
        MemoryLog([row for pair in zip(rows, lying, strict=True) for row in pair]),
        {"hidden": (32,), "rate": 3e-3, "explore": "greedy", "epochs": 10},
        seed=1,
    )
    assert result.metrics["tune_value"] > 0.9


def test_costs_are_subtracted_from_the_reward() -> None:
    rows = identity("numbers", 900)
    dear = {"hidden": (32,), "rate": 3e-3, "explore": "greedy", "cost_weight": 1.0, "costs": {"red": 5.0}}
    result = ActorCriticLearner().learn(MemoryLog(rows), dear, seed=1)
    policy = build(result.family, result.knobs, result.tensors, result.extra)
    for example in rows[:30]:
        assert opinion_on(policy, example.decision.situation, CANDIDATES).probabilities[2] == 0.0


@pytest.mark.parametrize("knobs", [{"epoch": 3}, {"explore": "wildly"}, {"rate": -1.0}, {"costs": {"red": "much"}}])
def test_invalid_knobs_of_the_learner_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        ActorCriticLearner().learn(MemoryLog(identity("numbers", 20)), knobs, seed=1)


def test_a_log_without_rewards_is_refused() -> None:
    rows = [row(number, Situation(task="t"), "red", None) for number in range(5)]
    with pytest.raises(InvalidInput, match="no decision with a reward"):
        ActorCriticLearner(encoder()).learn(MemoryLog(rows), {}, seed=1)


def test_a_bundle_that_does_not_fit_is_damaged() -> None:
    policy = start()
    extra = {
        "arms": list(policy.arms.names),
        "features": policy.features.to_json(),
        "actions": policy.actions.to_json(),
    }

    def refused(tensors: Any = policy.tensors, knobs: Any = policy.knobs, **changed: Any) -> None:
        with pytest.raises(Damaged):
            build("actor_critic", knobs, tensors, {**extra, **changed})

    refused(arms=["a", "b"])
    refused(arms=["a", "a", "b"])
    refused(arms=None)
    refused(features=None)
    refused(actions={"kind": "categorical", "sizes": [10**9], "low": [], "high": []})
    refused(actions={"kind": "gaussian", "sizes": [3], "low": [], "high": []})  # has no deviations
    refused(actions="three")
    refused(knobs={**policy.knobs, "explore": "wildly"})
    refused(knobs={**policy.knobs, "activation": "gelu"})
    refused(tensors={**policy.tensors, "policy.w0": policy.tensors["policy.w0"][:, :-1]})
    refused(tensors={**policy.tensors, "policy.g0": np.ones(3)})
    refused(tensors={name: tensor for name, tensor in policy.tensors.items() if name != "value.w0"})

"""Conservative Q-learning: gradient, untried actions, episodes, arms and confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from headway.decide.acting import Pipeline
from headway.decide.baselines import baseline
from headway.kits.offline.cql import QNetwork
from headway.kits.offline.cql_learner import CQLLearner
from headway.kits.offline.gradient import Steps, train_q
from headway.kits.offline.transitions import Transitions, gather
from headway.kits.practice.mlp import Network, Shape
from headway.nouns.errors import Damaged, InvalidInput, InvalidSettings
from headway.nouns.protocols import Learned
from headway.nouns.records import Candidate, Ending, Settled, Situation
from tests.families import build
from tests.learn.logs import MemoryLog, row
from tests.opinions import opinion_on

AB = (Candidate("a"), Candidate("b"))


def policy_of(learned: Learned) -> QNetwork:
    policy = build(learned.family, learned.knobs, learned.tensors, learned.extra)
    assert isinstance(policy, QNetwork)
    return policy


def transitions(rows: int, arms: int, seed: int, *, gamma: float) -> Transitions:
    rng = np.random.default_rng(seed)
    offered = rng.random((rows, arms)) < 0.8
    action = rng.integers(arms, size=rows)
    offered[np.arange(rows), action] = True
    after = np.where(rng.random(rows) < 0.3, -1, rng.integers(rows, size=rows))
    return Transitions(
        x=rng.normal(size=(rows, 5)).astype(np.float32),
        action=action,
        reward=rng.normal(size=rows).astype(np.float32),
        weight=rng.choice([0.5, 1.0], size=rows).astype(np.float32),
        propensity=np.full(rows, 1.0 / arms),
        offered=offered,
        next=after if gamma else np.full(rows, -1),
        usable=np.arange(rows),
        left_out=0,
    )


@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_a_step_has_the_gradient_of_the_published_loss(gamma: float) -> None:
    torch = pytest.importorskip("torch")
    log = transitions(32, 3, 1, gamma=gamma)
    network = Network(Shape(inputs=5, hidden=(16, 8), towers=(("q0", 3),), activation="relu"), seed=4)
    before = {name: torch.tensor(tensor, requires_grad=True) for name, tensor in network.tensors().items()}

    def q(x: Any) -> Any:
        for depth in range(3):
            x = x @ before[f"q0.w{depth}"].T + before[f"q0.b{depth}"]
            x = torch.relu(x) if depth < 2 else x
        return x

    offered = torch.tensor(log.offered)
    x, after = torch.tensor(log.x, dtype=torch.float64), torch.tensor(log.next)
    with torch.no_grad():  # the frozen copy equals the network at the first step
        ahead = q(x[after]).masked_fill(~offered[after], -torch.inf).max(dim=1).values
        aim = torch.tensor(log.reward, dtype=torch.float64) + torch.where(after >= 0, gamma * ahead, 0.0)
    values = q(x)
    chosen = values[torch.arange(32), torch.tensor(log.action)]
    huber = torch.nn.functional.huber_loss(chosen, aim, reduction="none")
    caution = torch.logsumexp(values.masked_fill(~offered, -torch.inf), dim=1) - chosen
    ((huber + 0.3 * caution) * torch.tensor(log.weight)).mean().backward()

    train_q(network, log, Steps(steps=1, batch=32, gamma=gamma, alpha=0.3), np.random.default_rng(0))
    twin = Network(network.shape)
    twin.theta[...] = network.grad
    for name, slope in twin.tensors().items():
        assert np.abs(slope - before[name].grad.numpy()).max() < 1e-5


def test_the_frozen_copy_gives_the_same_steps_all_at_once_or_by_batch() -> None:
    log = transitions(64, 3, 2, gamma=0.9)
    shape = Shape(inputs=5, hidden=(16,), towers=(("q0", 3), ("q1", 3)), activation="relu")
    weights = []
    for extra in (0, 5000):  # more rows that are never used: all at once would cost more than batches
        more = Transitions(
            x=np.concatenate([log.x, np.zeros((extra, 5), np.float32)]),
            action=np.concatenate([log.action, np.zeros(extra, np.int64)]),
            reward=np.concatenate([log.reward, np.zeros(extra, np.float32)]),
            weight=np.concatenate([log.weight, np.ones(extra, np.float32)]),
            propensity=np.concatenate([log.propensity, np.ones(extra)]),
            offered=np.concatenate([log.offered, np.ones((extra, 3), np.bool_)]),
            next=np.concatenate([log.next, np.full(extra, -1)]),
            usable=log.usable,
            left_out=0,
        )
        network = Network(shape, seed=3)
        take = Steps(steps=12, batch=16, gamma=0.9, alpha=0.1, target_every=4)
        train_q(network, more, take, _Even())  # type: ignore[arg-type]
        weights.append(network.theta.copy())
    assert np.abs(weights[0] - weights[1]).max() < 1e-5


class _Even:
    """A generator whose bootstrap weights do not depend on the number of rows."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)

    def permutation(self, rows: Any) -> Any:
        return self._rng.permutation(rows)

    def poisson(self, _: float, size: int) -> Any:
        return np.ones(size)


def lopsided(count: int, seed: int) -> list[Settled]:
    """If side = 1, only "a" was tried, and it pays 0.6; otherwise "b" pays 1 and "a" 0."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        side = int(rng.integers(2))
        action = "a" if side else "ab"[int(rng.integers(2))]
        reward = 0.6 if side else float(action == "b")
        reward += 0.05 * float(rng.normal())
        state = {"side": float(side), "noise": float(rng.normal())}
        rows.append(row(number + 1, Situation(task="t", state=state), action, reward, candidates=AB))
    return rows


def test_untried_actions_are_not_preferred() -> None:
    learned = CQLLearner().learn(MemoryLog(lopsided(800, 0)), {"alpha": 1.0, "steps": 800}, seed=1)
    policy = policy_of(learned)
    for side, best in ((1.0, "a"), (0.0, "b")):
        opinion = opinion_on(policy, Situation(task="t", state={"side": side, "noise": 0.0}), AB)
        assert AB[int(opinion.probabilities.argmax())].name == best


class Corridor(MemoryLog):
    """Three steps to the right end an episode with reward 1; steps to the left lose one place. All rows are train."""

    def __init__(self, episodes: int, seed: int, *, cut: int = 0) -> None:
        rng = np.random.default_rng(seed)
        rows: list[Settled] = []
        self.ends: dict[str, Ending] = {}
        for episode in range(episodes):
            place, step, name = 0, 0, f"episode {episode}"
            while place < 3 and not (episode < cut and step == 2):
                action = "right" if rng.random() < 0.6 else "left"
                situation = Situation(task="walk", state={"place": _hot(place)}, episode=name, step=step)
                place = place + 1 if action == "right" else max(0, place - 1)
                candidates = (Candidate("left"), Candidate("right"))
                rows.append(row(len(rows) + 1, situation, action, float(place == 3), candidates=candidates))
                step += 1
            self.ends[name] = "terminated" if place == 3 else "truncated"
        super().__init__(rows)

    def part(self, name: str) -> Sequence[Settled]:
        return self.rows if name == "train" else []

    def endings(self) -> Mapping[str, Ending]:
        return self.ends


def _hot(place: int) -> list[float]:
    return [float(place == index) for index in range(3)]


def test_values_of_a_corridor_are_the_discounted_ones() -> None:
    knobs = {
        "gamma": 0.8,
        "alpha": 0.0,
        "steps": 3000,
        "batch": 128,
        "target_every": 100,
        "decay": 0.0,
        "hidden": (32,),
    }
    learned = CQLLearner().learn(Corridor(300, 0), knobs, seed=2)
    policy = policy_of(learned)
    x = policy.features.vectors([Situation(task="walk", state={"place": _hot(place)}) for place in range(3)])
    # right: γ², γ, 1; left: one step back, then the best from there
    exact = np.array([[0.8**3, 0.8**2], [0.8**3, 0.8], [0.8**2, 1.0]])
    assert np.abs(policy.values(x) - exact).max() < 0.06
    assert learned.metrics["left_out"] == 0.0


def test_a_truncated_episode_does_not_count_as_terminated() -> None:
    log = Corridor(40, 1, cut=40)
    learner = CQLLearner()
    features = learner.learn(Corridor(40, 1), {"gamma": 0.8, "steps": 1}, seed=0).extra["features"]
    from headway.encode.state import Features

    gathered = gather(log, "train", Features.from_json(features), None, ["left", "right"], gamma=0.8, most=10**6)
    lasts = [place for place, example in enumerate(log.rows) if example.decision.situation.step == 1]
    assert gathered.left_out == len(lasts) == 40
    assert not set(lasts) & set(gathered.usable.tolist())
    assert {int(gathered.next[place - 1]) for place in lasts} == set(lasts)  # but the first steps lead to them
    alone = gather(log, "train", Features.from_json(features), None, ["left", "right"], gamma=0.0, most=10**6)
    assert len(alone) == len(log.rows)
    assert (alone.next == -1).all()


def test_an_arm_can_be_added_to_a_learned_policy() -> None:
    first = CQLLearner().learn(MemoryLog(lopsided(600, 3)), {"alpha": 0.1, "steps": 600}, seed=1)
    old = policy_of(first)
    rng = np.random.default_rng(4)
    more = (*AB, Candidate("c"))
    rows = []
    for number in range(300):
        side = int(rng.integers(2))
        name = "abc"[int(rng.integers(3))]
        reward = {"a": 0.6 * side, "b": 1.0 - side, "c": 0.9 * side}[name] + 0.05 * float(rng.normal())
        state = {"side": float(side), "noise": float(rng.normal())}
        rows.append(row(number + 1, Situation(task="t", state=state), name, reward, candidates=more))
    second = CQLLearner().learn(MemoryLog(rows), {"alpha": 0.1, "steps": 300}, seed=1, resume=old)
    policy = policy_of(second)
    assert policy.arms.names == ("a", "b", "c")
    assert policy.features == old.features
    new = opinion_on(policy, Situation(task="t", state={"side": 1.0, "noise": 0.0}), more)
    assert more[int(new.probabilities.argmax())].name == "c"
    kept = opinion_on(policy, Situation(task="t", state={"side": 0.0, "noise": 0.0}), AB)  # "c" is withdrawn
    assert AB[int(kept.probabilities.argmax())].name == "b"
    with pytest.raises(InvalidInput) as error:
        CQLLearner().learn(MemoryLog(rows), {}, seed=1, resume=baseline("uniform@0"))
    assert error.value.code == "not_resumable"


def hazy(count: int, seed: int) -> list[Settled]:
    """The arm "b" is better by tanh(3·z), plus noise: near z = 0 the arms are indistinguishable."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        z, action = float(rng.uniform(-1, 1)), "ab"[int(rng.integers(2))]
        mean = 0.5 + (0.15 if action == "b" else -0.15) * np.tanh(3.0 * z)
        rows.append(row(number + 1, Situation(task="t", state={"z": z}), action, float(rng.random() < mean),
                        candidates=AB))  # fmt: skip
    return rows


def test_confidence_is_low_for_ambiguous_situations_and_the_floor_works_both_ways() -> None:
    policy = policy_of(CQLLearner().learn(MemoryLog(hazy(3000, 5)), {"alpha": 0.0, "steps": 800}, seed=3))
    zs = np.linspace(-1, 1, 201)
    situations = [Situation(task="t", state={"z": float(z)}) for z in zs]
    opinions = policy.opinions(situations, AB, range(len(zs)))
    assert opinions.confidence is not None
    sure = opinions.confidence
    assert sure[np.abs(zs) > 0.7].mean() > 0.9 > 0.75 > sure[np.abs(zs) < 0.03].mean()
    pipeline = Pipeline(policy, fallback=baseline("fixed@0", arm="a"), confidence_floor=0.8, floor=0.0)
    branches = [pipeline.act(situation, AB, number).branch for number, situation in enumerate(situations)]
    assert {"policy", "fallback"} == set(branches)
    # High confidence is right more often than low confidence, and about as often as stated.
    right = opinions.probabilities.argmax(axis=1) == (zs > 0)
    assert right[sure >= 0.8].mean() >= sure[sure >= 0.8].mean() - 0.1


def test_pessimism_subtracts_the_disagreement_of_members() -> None:
    log = MemoryLog(lopsided(500, 6))
    knobs = {"members": 4, "steps": 300, "alpha": 0.0}
    plain = policy_of(CQLLearner().learn(log, knobs, seed=2))
    wary = policy_of(CQLLearner().learn(log, {**knobs, "pessimism": 2.0}, seed=2))
    x = plain.features.vectors([row.decision.situation for row in log.rows[:50]])
    assert (wary.values(x) <= plain.values(x)).all()
    taken = plain.values(x) - wary.values(x)
    side = x[:, 1 + sorted(["noise", "side"]).index("side")] > 0
    assert taken[side, 1].mean() > taken[side, 0].mean()  # "b" was never tried there


def test_costs_are_subtracted_when_it_acts() -> None:
    knobs = {"alpha": 0.1, "steps": 500, "costs": {"a": 0.0, "b": 1.0}, "cost_weight": 2.0}
    policy = policy_of(CQLLearner().learn(MemoryLog(lopsided(500, 7)), knobs, seed=1))
    opinion = opinion_on(policy, Situation(task="t", state={"side": 0.0, "noise": 0.0}), AB)
    assert AB[int(opinion.probabilities.argmax())].name == "a"


@pytest.mark.parametrize(
    "knobs", [{"gama": 0.5}, {"gamma": 1.0}, {"hidden": []}, {"members": 0}, {"batch": True}, {"costs": {"a": "x"}},
              {"explore": "boldly"}],
    ids=str,
)  # fmt: skip
def test_invalid_knobs_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        CQLLearner().learn(MemoryLog(lopsided(50, 0)), knobs, seed=0)


def test_a_bundle_that_does_not_fit_is_damaged() -> None:
    learned = CQLLearner().learn(MemoryLog(lopsided(200, 8)), {"steps": 20, "alpha": 0.0}, seed=0)

    def refused(knobs: Mapping[str, Any] = learned.knobs, **changed: Any) -> None:
        tensors = {**learned.tensors, **{name.replace("_", "."): tensor for name, tensor in changed.items()}}
        with pytest.raises(Damaged):
            build("cql", knobs, tensors, learned.extra)

    refused(covariance=learned.tensors["covariance"][:-1])
    refused(covariance=-learned.tensors["covariance"])
    refused(scale=np.array([0.1, 2.0, 0.0]))
    refused(scale=np.array([np.nan, 1.0, 0.0]))
    refused(q0_w0=learned.tensors["q0.w0"][:, :-1])
    refused({**learned.knobs, "members": 3})
    refused({**learned.knobs, "members": "one"})
    refused({**learned.knobs, "costs": {"a": None}})

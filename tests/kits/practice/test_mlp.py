"""Networks in numpy: gradients against finite differences, Adam against its formula, and saved tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.practice.engine import Adam, NumpyEngine, shape_of
from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import Network
from headway.kits.practice.objective import Minibatch, Objective, step
from headway.kits.practice.trunks import Trunk

HEADS = {
    "one head": Actions("categorical", (3,)),
    "three heads": Actions("categorical", (3, 2, 4)),
    "gaussian": Actions("gaussian", (2,)),
}


def batch_for(actions: Actions, rows: int, seed: int, *, weighted: bool = False, masked: bool = False) -> Minibatch:
    """Rows whose old log-probabilities are off, so that some ratios lie outside the clip range."""
    rng = np.random.default_rng(seed)
    allowed = None
    if actions.kind == "gaussian":
        action: Any = rng.standard_normal((rows, actions.outputs))
    else:
        action = np.stack([rng.integers(size, size=rows) for size in actions.sizes], axis=1)
        if masked:
            allowed = rng.random((rows, actions.outputs)) < 0.7
            for head, part in enumerate(actions.parts):
                allowed[np.arange(rows), part.start + action[:, head]] = True
    usual = -2.0 * actions.outputs if actions.kind == "gaussian" else -float(np.log(actions.sizes).sum())
    return Minibatch(
        x=rng.standard_normal((rows, 5)),
        action=action,
        old=usual + 0.4 * rng.standard_normal(rows),
        advantage=rng.standard_normal(rows),
        returns=rng.standard_normal(rows),
        values=rng.standard_normal(rows),
        weight=rng.random(rows) if weighted else None,
        allowed=allowed,
    )


def network_for(actions: Actions, *, norm: bool, activation: Any, dtype: Any = np.float64) -> Network:
    shape = shape_of(actions, 5, (7, 6), activation, norm)
    network = Network(shape, seed=3, dtype=dtype, gains=(1.0, 1.0))
    rng = np.random.default_rng(4)
    network.theta[...] = rng.standard_normal(len(network.theta)) * 0.4  # biases, gains and deviations too
    return network


def loss_of(network: Network, actions: Actions, batch: Minibatch, objective: Objective) -> float:
    stats, _ = step(network, actions, batch, objective)
    if actions.kind == "gaussian":
        weights = [objective.entropy_of(place) for place in range(actions.outputs)]
        entropy = network.free + 0.5 * (1.0 + np.log(2.0 * np.pi))
        return float(stats.policy_loss + objective.value * stats.value_loss - float(np.dot(weights, entropy)))
    if isinstance(objective.entropy, tuple):
        raise AssertionError("one weight for all heads here; weights per head are compared with torch")
    return float(stats.policy_loss + objective.value * stats.value_loss - objective.entropy * stats.entropy)


@pytest.mark.parametrize("heads", list(HEADS))
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize(
    ("objective", "rows", "weighted", "masked"),
    [
        (Objective(), 17, False, False),
        (Objective(clip=0.1, dual_clip=3.0, value_clip=0.2, value=0.7, entropy=0.05), 17, True, True),
        (Objective(clip=50.0), 1, False, False),
        (Objective(value=0.0, entropy=1.0, clip=1e-9), 9, False, True),
        (Objective(value=1.0, entropy=0.0, value_clip=0.3), 9, True, False),
    ],
    ids=["usual", "everything", "one row", "entropy", "value"],
)
def test_the_gradient_is_that_of_the_loss(
    heads: str, norm: bool, activation: str, objective: Objective, rows: int, weighted: bool, masked: bool
) -> None:
    actions = HEADS[heads]
    network = network_for(actions, norm=norm, activation=activation)
    batch = batch_for(actions, rows, seed=5, weighted=weighted, masked=masked and actions.kind == "categorical")
    loss_of(network, actions, batch, objective)
    gradient = network.grad.copy()
    assert np.abs(gradient).max() > 1e-4
    some = np.random.default_rng(rows).permutation(len(network.theta))[:60]
    for place in [*some.tolist(), *range(len(network.theta) - actions.free, len(network.theta))]:
        kept, sides = network.theta[place], []
        for shift in (1e-6, -1e-6):
            network.theta[place] = kept + shift
            sides.append(loss_of(network, actions, batch, objective))
        network.theta[place] = kept
        assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=2e-7), place


def test_adam_follows_its_formula_and_clips_the_norm() -> None:
    network = network_for(HEADS["one head"], norm=True, activation="relu")
    adam = Adam(network, rate=0.01, decay=0.1, most_norm=0.5)
    rng = np.random.default_rng(1)
    theta, mean, square = network.theta.copy(), np.zeros_like(network.theta), np.zeros_like(network.theta)
    for turn in range(1, 6):
        raw = rng.standard_normal(len(theta))
        network.grad[...] = raw
        assert adam.step() == pytest.approx(np.linalg.norm(raw))
        clipped = raw * 0.5 / (np.linalg.norm(raw) + 1e-6)
        mean, square = 0.9 * mean + 0.1 * clipped, 0.999 * square + 0.001 * clipped**2
        theta[: network.decayed] *= 1.0 - 0.01 * 0.1
        theta -= 0.01 * (mean / (1 - 0.9**turn)) / (np.sqrt(square / (1 - 0.999**turn)) + 1e-5)
        assert np.allclose(network.theta, theta, atol=1e-12)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    network = network_for(HEADS["one head"], norm=False, activation="tanh")
    adam, before = Adam(network), network.theta.copy()
    network.grad[...] = 1.0
    network.grad[3] = np.nan
    assert np.isnan(adam.step())
    assert np.array_equal(network.theta, before)
    assert adam.steps == 0


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_network_rebuilt_from_tensors_acts_the_same(norm: bool, activation: Any) -> None:
    network = network_for(HEADS["one head"], norm=norm, activation=activation, dtype=np.float32)
    again = Network(network.shape, dtype=np.float32)
    again.load(network.tensors())
    x = np.random.default_rng(2).standard_normal((11, 5)).astype(np.float32)
    outputs = [tensor.copy() for tensor in network.forward(x)]
    for one, other in zip(outputs, again.forward(x), strict=True):
        assert np.array_equal(one, other)
    for tower, name in enumerate(("policy", "value")):
        assert np.allclose(network.forward_one(x, tower), outputs[tower], atol=1e-6)
        acting = Trunk.read(network.tensors(), name, inputs=5, outputs=outputs[tower].shape[1], activation=activation)
        assert np.allclose(acting(x.astype(np.float64)), outputs[tower], atol=2e-3)


def test_tensors_of_another_shape_are_refused() -> None:
    network = network_for(HEADS["one head"], norm=False, activation="tanh")
    with pytest.raises(ValueError, match="shape"):
        network.load({**network.tensors(), "policy.w1": np.zeros((3, 3))})


def test_a_gaussian_head_stays_within_its_bounds() -> None:
    actions = HEADS["gaussian"]
    engine = NumpyEngine(actions, shape_of(actions, 5, (4,), "tanh", False), rate=50.0, most_norm=None)
    batch = batch_for(actions, 8, seed=1)
    single = Minibatch(*(None if array is None else array.astype(np.float32) for array in batch))
    for _ in range(5):
        engine.step(single, Objective(entropy=10.0))
    assert (np.abs(engine.free) <= 5.0).all()

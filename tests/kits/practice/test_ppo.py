"""PPO in torch and in numpy, and the invariants of an update: first ratio, single rows, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.kits.practice.engine import NumpyEngine, shape_of
from headway.kits.practice.fit import Practice, Rows, settings_of, update
from headway.kits.practice.heads import Actions
from headway.kits.practice.objective import Minibatch, Objective, divergence, step, surrogate, value_loss
from headway.nouns.errors import InvalidInput, InvalidSettings
from tests.kits.practice.test_mlp import HEADS, batch_for

torch = pytest.importorskip("torch", reason="torch is in the extra 'learn'")

OBJECTIVES = {
    "usual": Objective(),
    "everything": Objective(clip=0.1, dual_clip=1.5, value_clip=0.2, value=0.7, entropy=0.05),
}


@pytest.mark.parametrize("heads", list(HEADS))
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("weighted", [False, True])
def test_torch_and_numpy_have_the_same_loss_and_gradient(heads: str, norm: bool, name: str, weighted: bool) -> None:
    from headway.kits.practice.torch_engine import TorchEngine

    actions, objective = HEADS[heads], OBJECTIVES[name]
    if len(actions.sizes) > 1:
        objective = Objective(clip=0.1, value=0.7, entropy=(0.05, 0.01, 0.0))  # each head its own weight
    shape = shape_of(actions, 5, (7, 6), "tanh", norm)
    ours = NumpyEngine(actions, shape, seed=1, dtype=np.float64)
    ours.network.theta[...] = np.random.default_rng(9).standard_normal(len(ours.network.theta)) * 0.4
    theirs = TorchEngine(actions, shape, seed=1, dtype=np.float64)
    theirs.load(ours.tensors(), 0)
    batch = batch_for(actions, 33, seed=2, weighted=weighted, masked=actions.kind == "categorical")

    mine, ratio = step(ours.network, actions, batch, objective)
    gradients = _named(ours)
    loss, other, their_ratio = theirs.loss(batch, objective)
    loss.backward()
    assert np.allclose(mine, other, atol=1e-6)
    assert np.allclose(ratio, their_ratio.numpy(), atol=1e-6)
    assert mine.clip_fraction > 0.1
    for tensor, parameter in theirs.parameters.items():
        assert np.allclose(gradients[tensor], parameter.grad.numpy(), atol=1e-6), tensor


def _named(engine: NumpyEngine) -> dict[str, Any]:
    """The gradient by tensor name."""
    kept, network = engine.network.theta.copy(), engine.network
    network.theta[...] = network.grad
    tensors = network.tensors()
    network.theta[...] = kept
    return tensors


@pytest.mark.parametrize("shape", [(12,), (6, 4), (3, 5, 2)])
def test_losses_do_not_depend_on_the_shape(shape: tuple[int, ...]) -> None:
    from headway.kits.practice import ppo

    rng = np.random.default_rng(1)
    new, old, advantage, returns, values = (rng.standard_normal(shape) for _ in range(5))
    mask = (rng.random(shape) < 0.7).astype(float)
    new_t = torch.tensor(new, requires_grad=True)
    loss = ppo.surrogate(new_t, torch.tensor(old), torch.tensor(advantage), torch.tensor(mask), clip=0.2, dual_clip=3.0)
    loss.backward()
    ours = surrogate(new, old, advantage, mask, 0.2, 3.0)
    assert ours.loss == pytest.approx(loss.item(), abs=1e-12)
    assert np.allclose(ours.d_new, new_t.grad.numpy(), atol=1e-12)
    flat = surrogate(new.ravel(), old.ravel(), advantage.ravel(), mask.ravel(), 0.2, 3.0)
    assert flat.loss == pytest.approx(ours.loss)
    error, _ = value_loss(values, returns, old, mask, 0.3)
    theirs = ppo.value_loss(*(torch.tensor(array) for array in (values, returns, old, mask)), clip=0.3)
    assert error == pytest.approx(theirs.item(), abs=1e-12)
    kl = ppo.divergence(torch.tensor(new), torch.tensor(old), torch.tensor(mask))
    assert divergence(np.exp(new - old), mask) == pytest.approx(kl.item(), abs=1e-12)


@given(st.lists(st.floats(-8.0, 8.0), min_size=1, max_size=20))
def test_the_estimate_of_the_divergence_is_never_negative(logs: list[float]) -> None:
    assert divergence(np.exp(np.array(logs))) >= -1e-12


def test_the_dual_clip_bounds_what_a_stale_row_can_do() -> None:
    new, old, advantage = np.array([5.0]), np.array([0.0]), np.array([-1.0])
    assert surrogate(new, old, advantage, None, 0.2).loss == pytest.approx(np.exp(5.0))
    held = surrogate(new, old, advantage, None, 0.2, 3.0)
    assert held.loss == pytest.approx(3.0)
    assert held.d_new[0] == 0.0


def rows_for(actions: Actions, count: int, seed: int = 0, *, masked: bool = False) -> Rows:
    batch = batch_for(actions, count, seed, masked=masked)
    single = Minibatch(*(None if array is None else array.astype(np.float32) for array in batch))
    action = batch.action if actions.kind == "categorical" else single.action
    return Rows(single.x, action, single.advantage, single.returns, single.values, allowed=batch.allowed)


ENGINES = ["numpy", "torch"]


def engine_for(kind: str, actions: Actions, *, norm: bool, rate: float, inputs: int = 5) -> Any:
    from headway.kits.practice.torch_engine import TorchEngine

    shape = shape_of(actions, inputs, (64, 32), "relu" if norm else "tanh", norm)
    make: Any = NumpyEngine if kind == "numpy" else TorchEngine
    return make(actions, shape, seed=3, rate=rate)


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("heads", list(HEADS))
@pytest.mark.parametrize("count", [257, 1])
def test_the_first_ratio_of_every_row_is_exactly_one(kind: str, norm: bool, heads: str, count: int) -> None:
    actions = HEADS[heads]
    engine = engine_for(kind, actions, norm=norm, rate=0.0)  # no weight changes, so the whole first pass is the first
    rows = rows_for(actions, count, masked=actions.kind == "categorical")
    seen: list[Any] = []
    original = engine.step

    def spied(batch: Minibatch, objective: Objective) -> Any:
        stats, ratio = original(batch, objective)
        seen.append(np.array(ratio))
        return stats, ratio

    engine.step = spied
    metrics = update(engine, rows, Practice(epochs=1, minibatch=64), np.random.default_rng(1))
    ratios = np.concatenate(seen)
    assert len(ratios) == count
    assert (ratios == 1.0).all()
    assert metrics.stats.clip_fraction == 0.0
    assert metrics.stats.kl == 0.0
    assert metrics.first_ratios == (1.0, 1.0)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_last_minibatch_of_one_row_is_learned_from(kind: str) -> None:
    engine = engine_for(kind, HEADS["one head"], norm=True, rate=1e-3)
    before = engine.tensors()
    update(engine, rows_for(HEADS["one head"], 65), Practice(epochs=2, minibatch=64), np.random.default_rng(1))
    after = engine.tensors()
    assert all(np.isfinite(tensor).all() for tensor in after.values())
    assert not np.array_equal(before["policy.w0"], after["policy.w0"])


def test_one_row_alone_moves_the_policy_towards_a_good_action() -> None:
    actions = HEADS["one head"]
    engine = engine_for("numpy", actions, norm=True, rate=1e-2)
    rows = rows_for(actions, 1)._replace(advantage=np.ones(1, dtype=np.float32))
    before = engine.log_probabilities(rows.x, rows.action, None)[0]
    update(engine, rows, Practice(epochs=1), np.random.default_rng(1))
    assert engine.log_probabilities(rows.x, rows.action, None)[0] > before


def test_an_update_stops_when_the_policy_has_changed_enough() -> None:
    rows = rows_for(HEADS["one head"], 128)
    engine = engine_for("numpy", HEADS["one head"], norm=False, rate=0.05)
    metrics = update(engine, rows, Practice(epochs=20, minibatch=64, target_kl=0.01), np.random.default_rng(1))
    assert 1 <= metrics.passes < 20
    assert metrics.stats.kl > 0.015


def test_an_empty_batch_is_refused() -> None:
    engine = engine_for("numpy", HEADS["one head"], norm=False, rate=0.05)
    rows = rows_for(HEADS["one head"], 4)
    none = Rows(*(None if row is None else row[:0] for row in rows))
    with pytest.raises(InvalidInput, match="no row"):
        update(engine, none, Practice(), np.random.default_rng(1))


@pytest.mark.parametrize(
    "knobs", [{"rate": -1.0}, {"epochs": 0}, {"gamma": 1.5}, {"activation": "gelu"}, {"hidden": "wide"}, {"rate": "x"}]
)
def test_invalid_knobs_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        settings_of(knobs)


def test_an_unknown_knob_names_the_nearest() -> None:
    with pytest.raises(InvalidSettings, match="'epochs'"):
        settings_of({"epoch": 3})

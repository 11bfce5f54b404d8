"""The small network that turns features into policy inputs: exact sums, and a strict reader."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from headway.encode.state import Features
from headway.kits.practice.trunks import Activation, Trunk
from headway.nouns.errors import Damaged


def network(seed: int, sizes: tuple[int, ...] = (37, 64, 48, 5)) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(out, into)) / np.sqrt(into) for into, out in pairwise(sizes)]
    return weights, [rng.normal(size=out) for out in sizes[1:]]


def inputs(seed: int, rows: int) -> Any:
    return np.rint(np.random.default_rng(seed).uniform(-8, 8, size=(rows, 37)) / Features.GRID) * Features.GRID


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_row_alone_equals_its_row_in_a_batch_and_in_any_order_of_inputs(activation: Activation) -> None:
    weights, biases = network(1)
    trunk = Trunk(weights, biases, activation)
    x = inputs(2, 33)
    many = trunk(x)
    for row in range(len(x)):
        assert np.array_equal(many[row], trunk.one(x[row]))
        assert np.array_equal(many[row], trunk(x[row : row + 1])[0])
    order = np.random.default_rng(3).permutation(37)
    turned = Trunk([weights[0][:, order], *weights[1:]], biases, activation)
    assert np.array_equal(many, turned(x[:, order]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_output_equals_the_network_up_to_rounding(activation: Activation) -> None:
    weights, biases = network(4)
    x = activations = inputs(5, 20)
    for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        activations = activations @ weight.T + bias
        if depth < 2:
            activations = np.tanh(activations) if activation == "tanh" else np.maximum(activations, 0.0)
    assert np.abs(Trunk(weights, biases, activation)(x) - activations).max() < 1e-3


def test_a_written_network_is_read_bit_for_bit() -> None:
    trunk = Trunk(*network(6))
    again = Trunk.read(trunk.tensors("q0"), "q0", inputs=37, outputs=5)
    x = inputs(7, 9)
    assert np.array_equal(trunk(x), again(x))


def test_a_network_that_does_not_fit_is_damaged() -> None:
    good = Trunk(*network(8)).tensors("q0")

    def refused(code: str, **changed: Any) -> None:
        tensors = {**good, **{name.replace("_", "."): tensor for name, tensor in changed.items()}}
        with pytest.raises(Damaged) as error:
            Trunk.read(tensors, "q0", inputs=37, outputs=5)
        assert error.value.code == code

    refused("missing_tensor", q0_b1=None)
    refused("bad_tensor", q0_w1=good["q0.w1"][:, :-1])
    refused("bad_tensor", q0_b0=good["q0.b0"].astype(np.float32))
    refused("bad_tensor", q0_w0=np.full_like(good["q0.w0"], np.nan))
    refused("bad_tensor", q0_w0=np.full_like(good["q0.w0"], 1e200))
    refused("bad_tensor", q0_w2=np.zeros((0, 48)))
    with pytest.raises(Damaged):
        Trunk.read(good, "q0", inputs=37, outputs=4)
    with pytest.raises(Damaged):
        Trunk.read(good, "q1", inputs=37, outputs=5)
    with pytest.raises(Damaged):
        Trunk.read(good, "q0", inputs=37, outputs=5, activation="gelu")

"""The torch network, its numpy twin, and the objective over sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headway.kits.grow.collect import FactoredStage, Sequences  # noqa: E402
from headway.kits.grow.factored.space import Observations  # noqa: E402
from headway.kits.grow.gymnasium_world import MaskedCartPole  # noqa: E402
from headway.kits.grow.knobs import RecurrentKnobs, network_knobs  # noqa: E402
from headway.kits.grow.network import RecurrentNetwork, pack  # noqa: E402
from headway.kits.grow.policy import read  # noqa: E402
from headway.kits.grow.shapes import CRITICS, RecurrentShape  # noqa: E402
from headway.kits.grow.training import Training  # noqa: E402
from headway.kits.grow.update import (  # noqa: E402  # noqa: E402
    chosen,
    entropy_bonus,
    forward,
    judge,
    lead_shares,
    loss,
    masks_of,
    minibatches,
    rescale,
    update,
)
from headway.nouns.errors import Damaged, InvalidInput  # noqa: E402
from headway.testing import heads_contract  # noqa: E402
from tests.kits.grow.spaces import MORPH, TOY  # noqa: E402
from tests.kits.grow.toy_world import ToyWorld  # noqa: E402

KNOBS = RecurrentKnobs(width=16, envs=6, horizon=20, minibatches=2, epochs=2, rate=3e-3, target_kl=0.0)


def network_for(seed: int = 1, **knobs: Any) -> RecurrentNetwork:
    """A small network with output layers that are not nearly 0."""
    chosen_knobs = replace(KNOBS, **knobs)
    world = ToyWorld(1)
    shape = RecurrentShape.of(
        TOY, features=3, indices=world.indices, feedback_columns=world.feedback, **network_knobs(chosen_knobs)
    )
    network = RecurrentNetwork(shape, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.named().values():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=rng))
    return network


def rollout(network: RecurrentNetwork, **how: Any) -> tuple[FactoredStage, Sequences]:
    stage = FactoredStage(ToyWorld(6), network, seed=3, scale=False)
    stage.collect(7)  # so that memories are not 0 at the start
    return stage, stage.collect(20, **how)


def test_the_network_starts_as_it_is_declared() -> None:
    network = RecurrentNetwork(RecurrentShape.of(MORPH, features=112, indices=(14,) * 3), seed=0)
    parts = {name: parameter.detach() for name, parameter in network.named().items()}
    assert sum(parameter.numel() for parameter in network.parameters()) == 927_458
    assert float(parts["embedding.14"].std()) == pytest.approx(0.02, abs=0.005)
    product = parts["encoder.weight"].T @ parts["encoder.weight"]
    assert torch.allclose(product, 2.0 * torch.eye(124), atol=1e-4)
    for name in ("head.op.1.weight", "head.blueprint.2.weight", "value.1.weight"):
        assert float(torch.linalg.matrix_norm(parts[name], 2)) == pytest.approx(0.01, rel=1e-3)
    assert float(torch.linalg.matrix_norm(parts["head.blueprint.1.weight"], 2)) == pytest.approx(2**0.5, rel=1e-3)
    bias = parts["lstm.0.input_bias"] + parts["lstm.0.hidden_bias"]
    assert bias[256:512].eq(1.0).all()
    assert bias[:256].eq(0.0).all()
    assert bias[512:].eq(0.0).all()


@pytest.mark.parametrize("knobs", [{}, {"layers": 2}, {"layers": 2, "residual": False}, {"attention": 3}])
@pytest.mark.parametrize("chunk", [0, 6])
def test_a_sequence_gives_what_its_single_steps_give(knobs: dict[str, Any], chunk: int) -> None:
    network = network_for(**knobs)
    stage, sequences = rollout(network, chunk=chunk)
    packed = pack(sequences.begins, np.arange(6))
    features = sequences.features.reshape(-1, 3)[packed.order]
    indices = sequences.indices.reshape(-1, 2)[packed.order]
    with torch.no_grad():
        together = network.sequence(features, indices, packed, sequences.memory(packed.first))
        memory = sequences.memories[0]
        done = sequences.terminated | sequences.truncated
        for t in range(20):
            output, memory = network.step(sequences.features[t], sequences.indices[t], memory)
            mine = torch.stack([together[(packed.order == t * 6 + row).nonzero()[0, 0]] for row in range(6)])
            assert torch.allclose(output, mine, atol=1e-5)
            memory = memory * torch.as_tensor(~done[t])[:, None]
    assert torch.allclose(memory, stage.memory, atol=1e-5)


def test_packed_rows_are_all_rows_once_and_break_where_episodes_end() -> None:
    begins = np.zeros((5, 3), dtype=bool)
    begins[2, 0] = begins[4, 2] = True
    packed = pack(begins, np.array([0, 2]))
    assert sorted(packed.order.tolist()) == sorted(t * 3 + row for t in range(5) for row in (0, 2))
    assert packed.lengths.tolist() == [4, 3, 2, 1]
    assert packed.sizes.tolist() == [4, 3, 2, 1]
    assert packed.first.tolist() == [2, 6, 0, 14]


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("chunk", [0, 6])
def test_ratios_of_the_first_pass_are_exactly_one(critic: str, chunk: int) -> None:
    network = network_for(critic=critic)
    stage, sequences = rollout(network, chunk=chunk)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    knobs = replace(KNOBS, critic=critic, minibatches=1)
    updated = update(network, optimiser, sequences, knobs, np.random.default_rng(0), stage.rng)
    assert updated.first_ratios == (1.0, 1.0)


@pytest.mark.parametrize("width", [32, 64, 128])
def test_stored_and_new_log_probabilities_have_the_same_bits_in_networks_of_every_width(width: int) -> None:
    for seed in range(4):
        training = Training(MaskedCartPole, replace(KNOBS, width=width, envs=8, horizon=12), seed=seed)
        sequences, network = training.stage.collect(12), training.network
        groups = minibatches(sequences, training.knobs, training.rng, "cpu")
        old = judge(network, sequences, groups, training.knobs, training.stage.rng).old
        actions = sequences.actions.reshape(-1, 1)
        for packed in groups:
            scores = network.scores(forward(network, sequences, packed))
            choices = chosen(network.shape.space, scores, masks_of(sequences, packed.order), actions[packed.order])
            assert torch.equal(choices.joint, old[packed.order])


@pytest.mark.parametrize(("target_kl", "passes"), [(0.0, 4), (1e-9, 1), (10.0, 4)])
def test_an_update_stops_after_a_pass_that_moved_the_policy_too_far(target_kl: float, passes: int) -> None:
    network = network_for()
    stage, sequences = rollout(network)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
    knobs = replace(KNOBS, epochs=4, target_kl=target_kl)
    updated = update(network, optimiser, sequences, knobs, np.random.default_rng(0), stage.rng)
    assert updated.passes == passes
    assert updated.stats["kl"] > 1.5e-9


@torch.no_grad()
def test_scores_values_and_log_probabilities_stay_float32_where_the_network_computes_in_bfloat16() -> None:
    network = network_for()
    _, sequences = rollout(network)
    packed = pack(sequences.begins, np.arange(6))
    order = packed.order
    exact = forward(network, sequences, packed)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = forward(network, sequences, packed)
        scores, value = network.scores(output), network.value(output, sequences.actions.reshape(-1, 3)[order][:, 0])
        hidden = torch.nn.functional.linear(output, network.part("head.op.0.weight"))
    assert hidden.dtype == torch.bfloat16, "the matrices are multiplied in bfloat16"
    choices = chosen(TOY, scores, masks_of(sequences, order), sequences.actions.reshape(-1, 3)[order])
    assert {value.dtype, choices.joint.dtype, *(score.dtype for score in scores.values())} == {torch.float32}
    assert float((output.float() - exact).abs().max()) < 0.2


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("shared", [True, False])
def test_the_value_loss_gives_the_actor_no_gradient(critic: str, shared: bool) -> None:
    network = network_for(critic=critic)
    stage, sequences = rollout(network)
    knobs = replace(KNOBS, critic=critic, shared=shared)
    packed = pack(sequences.begins, np.arange(6))
    judged = judge(network, sequences, [packed], knobs, stage.rng)
    rows = torch.zeros(120)
    returns = torch.as_tensor(judged.returns.ravel())[packed.order] + 1.0
    parts, _ = loss(network, sequences, packed, knobs, old=rows, advantage=rows, returns=returns, values=rows)
    parts["value"].backward()
    for name, parameter in network.named().items():
        given = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0.0)
        if name.startswith("head."):
            assert not given, f"{name} is moved by the value loss"
        elif name.startswith("value."):
            assert given or name == "value.0.bias", f"{name} is not moved by the value loss"
        elif name.startswith("lstm.0"):
            assert given == shared


def test_masked_choices_have_probability_zero_and_irrelevant_heads_count_nothing() -> None:
    network = network_for()
    _, sequences = rollout(network)
    actions = sequences.actions.reshape(-1, 3)
    masks = {name: mask.reshape(-1, *mask.shape[2:]) for name, mask in sequences.masks.items()}
    for row in range(len(actions)):  # what was drawn was allowed
        lead, place, size = actions[row].tolist()
        assert lead == 0 or masks["place"][row, lead, place]
        assert lead != 1 or masks["size"][row, size]
        assert lead == 1 or size == 0
    output = torch.randn(120, 16)
    scores = network.scores(output)
    choices = chosen(TOY, scores, masks, actions)
    stay, turn = actions[:, 0] == 0, actions[:, 0] == 2
    for name, unused in (("place", stay), ("size", stay | turn)):
        assert choices.logs[name][unused].eq(0.0).all()
        assert choices.entropies[name][unused].eq(0.0).all()
        assert not choices.counts[name][unused].any()
    assert torch.equal(choices.joint, sum(choices.logs.values()))
    forbidden = torch.zeros(120, 4, dtype=torch.bool)
    forbidden[:, 1] = True
    log = torch.log_softmax(torch.where(forbidden, -1e9, scores["size"]), -1)
    assert log.exp()[:, 1].eq(0.0).all()
    shares = lead_shares(TOY, scores, {"op": torch.tensor([[True, False, True]]).expand(120, 3)})
    assert shares[:, 1].eq(0.0).all()
    assert not shares.requires_grad


def test_entropy_is_one_where_choices_are_uniform_and_weighs_heads_by_their_use() -> None:
    scores = {"op": torch.zeros(4, 3), "place": torch.zeros(4, 2), "size": torch.zeros(4, 4)}
    actions = torch.tensor([[0, 0, 0], [1, 1, 2], [0, 0, 0], [0, 0, 0]])
    masks = {"size": torch.tensor([[True, True, False, False]]).expand(4, 4)}
    choices = chosen(TOY, scores, masks, actions)
    assert choices.entropies["size"].tolist() == pytest.approx([0.0, 1.0, 0.0, 0.0])
    assert float(entropy_bonus(choices, {"op": 1.0, "place": 0.0, "size": 2.0})) == pytest.approx(1.0 + 2.0 / 4)
    assert float(entropy_bonus(choices, {"op": 1.0, "place": 0.0, "size": 2.0}, by="head")) == pytest.approx(3.0)


def test_the_marginal_value_is_the_sum_over_choices() -> None:
    network = network_for(critic="marginal")
    output = torch.randn(5, 16)
    by_lead = network.values_by_lead(output)
    for choice in range(3):
        assert torch.allclose(by_lead[:, choice], network.value(output, torch.full((5,), choice)), atol=1e-6)


def test_popart_keeps_predictions_while_the_scale_moves() -> None:
    network = network_for(critic="state")
    output = torch.randn(5, 16)

    def predicted() -> Any:
        mean, deviation = network.value_scale
        return network.value(output, None) * deviation + mean

    before = predicted()
    rescale(network, np.array([100.0, 300.0, 200.0]))
    assert network.value_scale.tolist() == pytest.approx([200.0, 81.6496], rel=1e-4)
    assert torch.allclose(before, predicted(), atol=1e-3)
    rescale(network, np.array([-50.0, 50.0]))
    assert torch.allclose(before, predicted(), atol=1e-3)


def test_a_truncated_episode_counts_the_value_of_its_final_observation() -> None:
    network = network_for(critic="state")
    stage, sequences = rollout(network)
    assert sequences.truncated.any()
    assert sequences.terminated.any()
    packed = pack(sequences.begins, np.arange(6))
    judged = judge(network, sequences, [packed], KNOBS, stage.rng)
    final = sequences.finals[0]
    with torch.no_grad():
        output, _ = network.step(final.features, final.indices, final.memory)
        value = network.value(output, None).numpy()
    assert judged.next_values[final.time, final.rows.numpy()] == pytest.approx(value, abs=1e-6)
    assert sum(len(one.rows) for one in sequences.finals) == sequences.truncated.sum()


@pytest.mark.parametrize("knobs", [{}, {"layers": 2}, {"attention": 3}, {"critic": "state", "feedback": False}])
def test_the_numpy_policy_has_the_same_bits_alone_in_a_batch_and_replayed(knobs: dict[str, Any]) -> None:
    network = network_for(**knobs)
    policy = read({}, network.tensors(), {"shape": network.shape.to_json()}, None)
    rng = np.random.default_rng(5)
    memory, alone, tensor = (
        np.zeros((7, policy.memory_width)),
        np.zeros((1, policy.memory_width)),
        torch.zeros(7, policy.memory_width),
    )
    steps = [Observations(rng.normal(size=(7, 3)), rng.integers(0, 4, (7, 2))) for _ in range(40)]
    for seen in steps:
        opinions = policy.scores(seen, memory)
        single = policy.scores(Observations(seen.features[4:5], seen.indices[4:5]), alone)
        with torch.no_grad():
            features = torch.as_tensor(seen.features, dtype=torch.float32)
            output, tensor = network.step(features, torch.as_tensor(seen.indices), tensor)
            twin = network.scores(output)
        for head, scores in opinions.scores.items():
            assert np.array_equal(single.scores[head][0], scores[4])
            assert np.abs(scores - twin[head].numpy()).max() < 1e-5
        assert np.array_equal(single.memory[0], opinions.memory[4])
        assert single.value[0] == opinions.value[4]
        memory, alone = opinions.memory, single.memory
    again = np.zeros((1, policy.memory_width))
    for seen in steps:
        again = policy.scores(Observations(seen.features[4:5], seen.indices[4:5]), again).memory
    assert np.array_equal(again[0], memory[4])


def test_the_policy_satisfies_the_contract() -> None:
    network = network_for(attention=2)
    extra = {"shape": network.shape.to_json()}
    heads_contract(read({}, network.tensors(), extra, None), read({}, network.tensors(), extra, None))


def test_the_policy_refuses_other_shapes_damaged_tensors_and_numbers_that_are_not_finite() -> None:
    network = network_for()
    extra = {"shape": network.shape.to_json()}
    policy = read({}, network.tensors(), extra, None)
    memory = np.zeros((1, policy.memory_width))
    good = Observations(np.zeros((1, 3)), np.zeros((1, 2), dtype=np.int64))
    for features, indices, stored in (
        (np.zeros((1, 4)), good.indices, memory),
        (good.features, np.array([[0, 4]]), memory),
        (good.features, np.array([[-1, 0]]), memory),
        (np.full((1, 3), np.nan), good.indices, memory),
        (good.features, good.indices, memory[:, 1:]),
    ):
        with pytest.raises(InvalidInput):
            policy.scores(Observations(features, indices), stored)
    tensors = network.tensors()
    for damage in (
        {"encoder.weight": tensors["encoder.weight"][:, 1:]},
        {"deviations": np.zeros(3, dtype=np.float32)},
        {"lstm.0.input": np.full_like(tensors["lstm.0.input"], np.nan)},
    ):
        with pytest.raises(Damaged):
            read({}, {**tensors, **damage}, extra, None)
    with pytest.raises(Damaged):
        read({}, {name: one for name, one in tensors.items() if name != "means"}, extra, None)

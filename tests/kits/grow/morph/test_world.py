"""The world `morph` as a policy meets it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headway.kits.grow.factored.draw import check_masks
from headway.kits.grow.morph import recording
from headway.kits.grow.morph.baselines import BASELINES, random_valid
from headway.kits.grow.morph.blueprints import EMPTY, OPS, SPACE
from headway.kits.grow.morph.epoch import learn_hosts
from headway.kits.grow.morph.evaluate import played
from headway.kits.grow.morph.host import amplitude
from headway.kits.grow.morph.lifecycle import SeedStage
from headway.kits.grow.morph.observation import BASE, FEEDBACK, NAMES_OF_FEATURES, PER_SLOT
from headway.kits.grow.morph.reward import PENALTY
from headway.kits.grow.morph.world import MorphWorld

SMALL = {"minibatches": 1, "batch": 8, "horizon": 6}
GERMINATE = "op=GERMINATE,slot=r0c1,blueprint=NORM,style=LINEAR_ADD,tempo=FAST,alpha_target=FULL"


def world_of(count: int = 4, **settings: object) -> MorphWorld:
    world = MorphWorld(count, **{**SMALL, **settings})  # type: ignore[arg-type]
    world.reset(3)
    return world


def actions(world: MorphWorld, name: str = "op=WAIT") -> np.ndarray:
    return np.array([SPACE.parse(name)] * world.count)


def same(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name], equal_nan=value.dtype.kind == "f"), name


def test_what_a_policy_sees_has_the_declared_shape() -> None:
    world = world_of()
    observations, masks = world.reset(3)
    assert (len(BASE), len(PER_SLOT), world.features) == (25, 29, 112)
    assert next(NAMES_OF_FEATURES[column] for column in FEEDBACK) == "last action success"
    assert len(FEEDBACK) == 7
    assert observations.features.shape == (4, 112)
    assert observations.features.dtype == np.float32
    assert observations.indices.tolist() == [[EMPTY] * 3] * 4
    assert world.indices == (14, 14, 14)
    check_masks(SPACE, masks, 4)
    result = world.step(actions(world, GERMINATE))
    check_masks(SPACE, result.masks, 4)
    named = dict(zip(NAMES_OF_FEATURES, result.observations.features[0].tolist(), strict=True))
    assert named["last op GERMINATE"] == 1
    assert named["last action success"] == 1
    assert named["r0c1 stage GERMINATED"] == 1
    assert named["r0c1 active"] == 1
    assert named["epoch share"] == pytest.approx(1 / 6)
    result = world.step(actions(world, GERMINATE))
    named = dict(zip(NAMES_OF_FEATURES, result.observations.features[0].tolist(), strict=True))
    assert named["last action success"] == 0, "the slot is taken"
    assert named["last op WAIT"] == 1


def test_random_episodes_stay_finite_and_every_action_that_masks_allow_succeeds() -> None:
    world, choose = world_of(8, horizon=40), random_valid(1)
    for _ in range(60):
        chosen = choose(world)
        assert world.masks["op"][torch.arange(8), chosen[:, 0]].all()
        result = world.step(chosen)
        assert np.isfinite(result.observations.features).all()
        assert np.isfinite(result.rewards).all()
        check_masks(SPACE, result.masks, 8)
        goes_on = ~result.terminated
        assert (world.history.last_success.numpy()[goes_on] == 1).all()


def test_the_same_seed_and_actions_give_the_same_bits_and_a_restored_world_goes_on_alike() -> None:
    first, second = world_of(horizon=9), world_of(horizon=9)
    choose, again = random_valid(1), random_valid(1)
    for _ in range(5):
        first.step(choose(first))
        second.step(again(second))
    same(first.state(), second.state())
    third = MorphWorld(4, **{**SMALL, "horizon": 9})  # type: ignore[arg-type]
    observations, _ = third.restore(first.state())
    assert np.array_equal(observations.features, first.present()[0].features)
    for _ in range(6):
        chosen = choose(first)
        ours, theirs = first.step(chosen), third.step(chosen)
        assert np.array_equal(ours.rewards, theirs.rewards)
    same(first.state(), third.state())


def test_an_episode_ends_at_the_horizon_and_the_next_one_begins_in_the_same_step() -> None:
    world = world_of()
    for step in range(6):
        result = world.step(actions(world))
        assert result.terminated.all() == (step == 5)
        assert not result.truncated.any()
    assert result.info["final"].features[:, 0].tolist() == [1.0] * 4
    assert result.observations.features[:, 0].tolist() == [0.0] * 4
    assert "test_accuracy" not in result.info["episode"]


def test_staggered_episodes_end_at_different_times() -> None:
    world = world_of(16, horizon=8)
    observations, _ = world.stagger()
    assert len(set(observations.features[:, 0].tolist())) > 3
    ended = [int(world.step(actions(world)).terminated.sum()) for _ in range(8)]
    assert sum(ended) == 16
    assert max(ended) < 16


def test_nan_in_a_host_ends_that_episode_alone() -> None:
    world, other = world_of(horizon=12), world_of(horizon=12)
    for _ in range(6):  # past the first snapshot
        world.step(actions(world))
        other.step(actions(other))
    good = world.snapshot.accuracy[1].item()
    world.hosts.trunk[1, 0] = float("nan")
    ours, theirs = world.step(actions(world)), other.step(actions(other))
    assert ours.terminated.tolist() == [False, True, False, False]
    assert np.isfinite(ours.observations.features).all()
    assert ours.info["episode"]["stopped"].tolist() == [True]
    assert ours.info["episode"]["validation_accuracy"].tolist() == pytest.approx([good])
    assert ours.info["metrics"]["penalty"].tolist() == pytest.approx([0, PENALTY, 0, 0])
    alive = [0, 2, 3]
    assert np.array_equal(ours.rewards[alive], theirs.rewards[alive])
    assert torch.equal(world.hosts.trunk[alive], other.hosts.trunk[alive])
    assert world.hosts.trunk.isfinite().all()
    assert world.history.epoch.tolist() == [7, 0, 7, 7]


def test_collapse_and_divergence_end_an_episode() -> None:
    world = world_of(horizon=12)
    world.history.best_accuracy[0] = 0.9  # and now it guesses
    world.hosts.trunk[0, -10:] = torch.tensor([50.0] + [0.0] * 9)
    world.hosts.trunk[1] *= 30
    assert world.step(actions(world)).terminated.tolist()[:2] == [True, True]


@pytest.mark.parametrize("mode", ["simplified", "sparse"])
def test_the_return_is_the_gain_in_accuracy_less_rent_and_costs(mode: str) -> None:
    world, choose = world_of(mode=mode, horizon=14), random_valid(2)
    start, total = world.history.accuracies[:, -1].numpy().copy(), np.zeros(4)
    for _ in range(14):
        result = world.step(choose(world))
        total += result.rewards
    told = result.info["episode"]
    assert not told["stopped"].any()
    wanted = told["validation_accuracy"] - start - told["rent"] - told["costs"]
    assert total == pytest.approx(wanted, abs=1e-5)


def test_the_discounted_return_of_shaped_rewards_differs_by_hindsight_credit_alone() -> None:
    totals = {}
    for mode in ("shaped", "simplified"):
        world, choose = world_of(mode=mode, horizon=14, discount=0.9), random_valid(2)
        totals[mode] = np.zeros(4)
        for step in range(14):
            result = world.step(choose(world))
            totals[mode] += 0.9**step * (result.rewards - (mode == "shaped") * result.info["metrics"]["hindsight"])
    assert totals["shaped"] == pytest.approx(totals["simplified"], abs=1e-5)


def test_the_twin_is_the_host_that_never_grew() -> None:
    grown, alone = world_of(twin=True), world_of()
    for step in range(5):
        ours = grown.step(actions(grown, GERMINATE if step == 0 else "op=WAIT"))
        theirs = alone.step(actions(alone))
        assert np.array_equal(ours.info["twin_accuracy"], theirs.info["metrics"]["accuracy"])


def test_contributions_come_from_the_subsets() -> None:
    world = world_of(horizon=40, minibatches=4, batch=32)
    world.step(actions(world, GERMINATE))
    for _ in range(4):
        world.step(actions(world))
    for _ in range(4):
        result = world.step(actions(world, "op=ADVANCE,slot=r0c1"))
    subsets = result.info["subsets"]
    assert (world.slots.stage[:, 1] == SeedStage.HOLDING).all()
    assert np.array_equal(result.info["contribution"][:, 1], subsets[:, 7] - subsets[:, 5])
    assert np.array_equal(subsets[:, 2], subsets[:, 7]), "the other slots are empty"
    assert result.info["shapley"][:, 1] == pytest.approx(subsets[:, 7] - subsets[:, 0], abs=1e-6)
    assert not result.info["contribution"][:, [0, 2]].any()


def test_baselines_play_and_only_evaluation_reads_the_test_images() -> None:
    tables = {
        name: played(make(0), seed=5, count=3, minibatches=1, batch=8, horizon=12)
        for name, make in BASELINES.items()
        if name != "greedy"
    }
    assert tables["wait-only"].ops.tolist() == [36, 0, 0, 0, 0, 0]
    assert tables["static-all"].ops[OPS.index("GERMINATE")] == 9
    assert not tables["wait-only"].columns["rent"].any()
    assert (tables["static-all"].columns["rent"] > 0).all()
    for table in tables.values():
        columns = table.columns
        assert columns["net"] == pytest.approx(
            columns["test_accuracy"] - columns["rent"] - columns["costs"] - columns["penalty"]
        )
    world = world_of(horizon=2)
    object.__setattr__(world._material, "test", None)
    world.step(actions(world))
    assert world.step(actions(world)).terminated.all(), "an episode ends without test images"


def test_greedy_takes_the_operation_with_the_highest_reward() -> None:
    world = world_of(2, horizon=5)
    choose = BASELINES["greedy"](0)
    state = world.state()
    chosen = choose(world)
    same(state, world.state())
    best = world.step(chosen).rewards
    world.restore(state)
    assert (best >= world.step(actions(world)).rewards).all()


def test_hosts_learn_also_where_the_caller_needs_no_gradients() -> None:
    world, other = world_of(), world_of()
    with torch.no_grad():
        inside = world.step(actions(world))
    assert np.array_equal(inside.rewards, other.step(actions(other)).rewards)


def test_teachers_are_another_material() -> None:
    world = world_of(source="teachers")
    assert len(set(world.hosts.tasks.tolist())) > 1
    world.step(actions(world))


@pytest.mark.slow
def test_the_rent_makes_growing_everything_worse_than_a_schedule() -> None:
    everything = played(BASELINES["static-all"](0), seed=1000, count=16)
    schedule = played(BASELINES["fixed schedule"](0), seed=1000, count=16)
    assert schedule.net.mean() - everything.net.mean() > 0.05
    assert everything.columns["test_accuracy"].mean() > 0.8


def test_seeds_in_blocks_with_spare_room_learn_what_they_learn_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """How hosts learn on a GPU. Products of other sizes have other roundings, so the bits differ a little."""
    monkeypatch.setattr(recording, "_STEP", 1)
    plain, blocks, choose = world_of(12, horizon=30), world_of(12, horizon=30), random_valid(3)
    rooms = set()
    for _ in range(14):
        sight = plain._look()
        batches = torch.randint(1000, (2, 12, 8))
        given = {"rate": 0.02, "graft": "residual"}
        blocks.restore(plain.state())
        strengths = amplitude(blocks.slots.alpha, blocks.slots.style)
        other, gradient = blocks._epochs.learn(
            blocks.hosts, sight, blocks.slots.blueprint, strengths, blocks._material.train, batches, **given
        )
        seeds = plain._groups(sight, sight.learns)
        mine, norms = learn_hosts(plain.hosts, seeds, plain._material.train, batches, **given)
        assert torch.allclose(mine.loss, other.loss, atol=1e-5)
        assert torch.allclose(norms, gradient, atol=1e-4)
        for name in ("trunk", "trunk_square", "seeds", "seeds_mean", "seeds_updates"):
            assert torch.allclose(getattr(plain.hosts, name), getattr(blocks.hosts, name), atol=1e-4), name
        rooms.add(sum(blocks._epochs.rooms.values()))
        plain.step(choose(plain))
    assert len(rooms) > 1  # some blocks became too small


def test_a_broken_host_breaks_no_other_host_through_the_spare_room_of_blocks() -> None:
    world = world_of(4, horizon=30)
    world.step(actions(world, GERMINATE))
    world.step(actions(world))
    world.hosts.trunk[2] = torch.nan
    strengths = amplitude(world.slots.alpha, world.slots.style)
    batches = torch.randint(1000, (2, 4, 8))
    for _ in range(2):
        sight = world._look()
        result, _ = world._epochs.learn(
            world.hosts, sight, world.slots.blueprint, strengths, world._material.train, batches, rate=0.02
        )
        assert result.loss.isnan().tolist() == [False, False, True, False]
        assert world.hosts.seeds.isfinite().flatten(1).all(dim=1).tolist() == [True, True, False, True]

"""The family recurrent and the world morph on a GPU; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

from headway.kits.grow.factored.space import Observations  # noqa: E402
from headway.kits.grow.gymnasium_world import MaskedCartPole  # noqa: E402
from headway.kits.grow.knobs import RecurrentKnobs  # noqa: E402
from headway.kits.grow.learner import RunFolder, learned  # noqa: E402
from headway.kits.grow.morph.baselines import random_valid  # noqa: E402
from headway.kits.grow.morph.world import MorphWorld  # noqa: E402
from headway.kits.grow.policy import read  # noqa: E402
from headway.kits.grow.scaffold import Scaffold  # noqa: E402
from headway.kits.grow.training import Training  # noqa: E402
from tests.kits.grow.toy_world import ToyWorld  # noqa: E402

KNOBS = RecurrentKnobs(
    width=64, envs=8, horizon=12, minibatches=2, epochs=2, steps=10_000, episodes=4, confirm=4, target_kl=0.0
)
GROWING = partial(MorphWorld, device="cuda")


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("make", [ToyWorld, MaskedCartPole, Scaffold, GROWING])
def test_a_network_on_the_gpu_practises_in_worlds_of_numpy_and_of_torch(make: Any, bf16: bool) -> None:
    training = Training(make, replace(KNOBS, bf16=bf16), seed=2, device="cuda")
    before = training.network.tensors()
    for _ in range(2):
        updated = training.once(detailed=True)
        assert updated.first_ratios == (1.0, 1.0)
        assert all(np.isfinite(value) for value in updated.stats.values())
        assert updated.judged is not None
        assert updated.judged.old.dtype == torch.float32
    assert any(not np.array_equal(before[name], tensor) for name, tensor in training.network.tensors().items())
    assert np.isfinite(training.evaluate(4, seed=3))


def test_the_policy_in_numpy_scores_like_the_network_on_the_gpu() -> None:
    training = Training(ToyWorld, KNOBS, seed=2, device="cuda")
    training.once()
    made = learned(training)
    policy, network = read(made.knobs, made.tensors, made.extra), training.network
    rng = np.random.default_rng(5)
    memory, tensor = np.zeros((6, policy.memory_width)), torch.zeros(6, policy.memory_width, device="cuda")
    for _ in range(20):
        indices = np.stack((rng.integers(0, 5, 6), rng.integers(0, 4, 6)), axis=1)
        seen = Observations(rng.normal(size=(6, 3)), indices)
        opinions = policy.scores(seen, memory)
        with torch.no_grad():
            features = torch.as_tensor(seen.features, dtype=torch.float32, device="cuda")
            output, tensor = network.step(features, torch.as_tensor(indices, device="cuda"), tensor)
            scores = network.scores(output)
        for name, mine in opinions.scores.items():
            assert np.abs(mine - scores[name].cpu().numpy()).max() < 1e-5
        memory = opinions.memory


@pytest.mark.parametrize("make", [ToyWorld, GROWING])
def test_a_run_on_the_gpu_is_resumed_with_its_world_and_its_random_numbers(make: Any, tmp_path: Path) -> None:
    first = Training(make, KNOBS, seed=2, device="cuda")
    first.once()
    RunFolder(tmp_path, "toy").save(first)
    second = Training(make, KNOBS, seed=2, device="cuda")
    assert RunFolder(tmp_path, "toy").load(second) == first.counts.steps
    mine, theirs = first.state()[0], second.state()[0]
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    drawn = [training.stage.collect(3).actions.cpu().numpy() for training in (first, second)]
    assert np.array_equal(drawn[0][0], drawn[1][0])
    assert np.isfinite(list(second.once().stats.values())).all()


def test_hosts_on_the_gpu_learn_what_they_learn_on_the_cpu() -> None:
    """Not the same bits: sums have another order. The same hosts, batches and actions, and nearly the same numbers."""
    worlds = [MorphWorld(4), MorphWorld(4, device="cuda")]
    for world in worlds:
        world.reset(5)
    for name in ("trunk", "tasks"):
        setattr(worlds[1].hosts, name, getattr(worlds[0].hosts, name).cuda())
    images = {"minibatches": 2, "batch": 32}
    drawn = torch.randint(1000, (images["minibatches"], 4, images["batch"]))
    from headway.kits.grow.morph.epoch import learn, trunk_moments

    results = []
    for world in worlds:
        split = world._material.train
        batches = drawn.to(world.device)
        moments = trunk_moments(world.hosts)
        results.append(
            learn(world.hosts.trunk, moments, [], [], split, world.hosts.tasks, batches, rate=0.02).loss.cpu()
        )
    assert torch.allclose(results[0], results[1], atol=1e-3)
    assert torch.allclose(worlds[0].hosts.trunk, worlds[1].hosts.trunk.cpu(), atol=5e-3)


def test_a_host_on_the_gpu_ends_its_episode_alone_when_it_breaks() -> None:
    world, choose = MorphWorld(16, device="cuda"), random_valid(1)
    world.reset(3)
    for _ in range(8):
        world.step(choose(world))
    world.hosts.trunk[5] = torch.nan
    result = world.step(choose(world))
    assert result.terminated.nonzero().flatten().tolist() == [5]
    assert bool(torch.isfinite(result.observations.features).all())
    for _ in range(3):
        assert bool(torch.isfinite(world.step(choose(world)).rewards).all())

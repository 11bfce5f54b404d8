"""The contracts of actions with several heads: exact draws, a memory that is a fold, worlds that continue exactly.

heads_contract(policy, again)                      # `again` is the same policy, read from disk
factored_world_contract(world)                     # world(count=…) makes copies of it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headway.kits.grow.factored.draw import check_masks, draw
from headway.kits.grow.factored.pipeline import FactoredPipeline, like
from headway.kits.grow.factored.space import Factored, FactoredOpinions, FactoredPolicy, Observations

_ROWS = 6


def heads_contract(policy: FactoredPolicy, again: FactoredPolicy, *, steps: int = 5, seed: int = 0) -> None:
    """Scores and memory have the declared shapes, and every row the same bits alone, in a batch and read from disk.

    Memory is passed in and given back: nothing of an episode stays in the policy, and nothing that is passed in is
    changed. Draws keep to masks, heads that do not count have probability 1, and the joint propensity is exact.
    """
    rng = np.random.default_rng(seed)
    assert policy.space == again.space, "the policy read from disk has other heads"
    memory = FactoredPipeline(policy).start(_ROWS)
    for step in range(steps):
        observations = _observations(policy, rng)
        before = (observations.features.copy(), observations.indices.copy(), memory.copy())
        opinions = policy.scores(observations, memory)
        _fits(policy, opinions, _ROWS)
        for mine, kept in zip((observations.features, observations.indices, memory), before, strict=True):
            assert np.array_equal(mine, kept), f"step {step}: the policy changes what it is given"
        for twin in (policy, again):
            _same(opinions, twin.scores(observations, memory), slice(None), f"step {step}: asked again, it differs")
        for row in range(_ROWS):
            part = slice(row, row + 1)
            few = Observations(observations.features[part], observations.indices[part])
            _same(opinions, again.scores(few, memory[part]), part, f"step {step}: a row alone differs")
        order = rng.permutation(_ROWS)
        mixed = Observations(observations.features[order], observations.indices[order])
        _same(opinions, policy.scores(mixed, memory[order]), order, f"step {step}: the order of rows matters")
        _draws(policy, opinions, rng)
        memory = opinions.memory


def _observations(policy: FactoredPolicy, rng: np.random.Generator) -> Observations:
    indices = [rng.integers(0, size, size=_ROWS) for size in policy.indices]
    columns = np.stack(indices, axis=1) if indices else np.zeros((_ROWS, 0), dtype=np.int64)
    return Observations(rng.normal(size=(_ROWS, policy.features)), columns)


def _fits(policy: FactoredPolicy, opinions: FactoredOpinions, rows: int) -> None:
    space = policy.space
    assert set(opinions.scores) == set(space.names), f"scores are of {sorted(opinions.scores)}, not {space.names}"
    for name, size in zip(space.names, space.sizes, strict=True):
        scores = opinions.scores[name]
        assert scores.shape == (rows, size), f"scores of {name} are {scores.shape}, expected {(rows, size)}"
        assert scores.dtype == np.float64, f"scores of {name} are {scores.dtype}, expected float64"
        assert np.isfinite(scores).all(), f"a score of {name} is not a finite number"
    width = (rows, policy.memory_width)
    assert opinions.memory.shape == width, f"memory is {opinions.memory.shape}, expected {width}"
    assert opinions.value.shape == (rows,), f"values are {opinions.value.shape}, expected {(rows,)}"
    for name, values in (("memory", opinions.memory), ("value", opinions.value)):
        assert np.isfinite(values).all(), f"the {name} is not a finite number"


def _same(opinions: FactoredOpinions, other: FactoredOpinions, rows: Any, message: str) -> None:
    for name, scores in opinions.scores.items():
        assert np.array_equal(scores[rows], other.scores[name]), f"{message} (scores of {name})"
    assert np.array_equal(opinions.memory[rows], other.memory), f"{message} (memory)"
    assert np.array_equal(opinions.value[rows], other.value), f"{message} (value)"


def _draws(policy: FactoredPolicy, opinions: FactoredOpinions, rng: np.random.Generator) -> None:
    space = replace(policy.space, conditional=policy.space.conditional or policy.space.names[1:2])
    masks, seeds = _masks(space, rng), rng.integers(0, 2**62, size=_ROWS).tolist()
    for floor in (0.0, 0.05):
        drawn = draw(space, opinions.scores, masks, seeds, floor=floor)
        again = draw(space, opinions.scores, masks, seeds, floor=floor)
        assert np.array_equal(drawn.actions, again.actions), "a repeated draw differs"
        for row, action in enumerate(drawn.actions):
            for place, name in enumerate(space.names):
                shares = drawn.probabilities[name][row]
                assert abs(float(shares.sum()) - 1.0) <= 1e-12, f"the probabilities of {name} sum to {shares.sum()!r}"
                if not space.relevant[int(action[0])][place]:
                    assert action[place] == 0, f"{name} does not count and is drawn"
                    assert shares[0] == 1.0
                    continue
                mask = masks[name][row, action[0]] if name in space.conditional else masks[name][row]
                assert (shares[~mask] == 0.0).all(), f"a masked choice of {name} has a probability"
                assert mask[action[place]], f"a masked choice of {name} is drawn"
        assert np.array_equal(drawn.propensity, np.prod(drawn.chosen(space), axis=1)), "the joint propensity is off"


def _masks(space: Factored, rng: np.random.Generator) -> dict[str, Any]:
    """Random masks that leave a choice everywhere."""
    masks: dict[str, Any] = {}
    for head in space.heads:
        between = (len(space.lead.choices),) if head.name in space.conditional else ()
        mask = rng.random((_ROWS, *between, len(head.choices))) < 0.6
        mask[..., rng.integers(len(head.choices))] = True
        masks[head.name] = mask
    return masks


def factored_world_contract(make: Callable[..., Any], *, count: int = 3, steps: int = 40, seed: int = 7) -> None:
    """`make(count=…)` gives copies whose actions have several heads, stepped together.

    Checked: shapes, finite observations and rewards, masks that always leave a choice, final observations, that seed
    and actions alone determine the result, and that `restore(state())` goes on bit for bit.
    """
    first, second = make(count=count), make(count=count)
    try:
        assert first.count == count, f"count={count} gives {first.count} copies"
        one = _played(first, steps, seed)
        half = steps // 2
        _alike(one[: half + 1], _played(second, half, seed), "the same seed and actions give something else")
        kept = second.state()
        third = make(count=count)
        try:
            observations, masks = third.restore(kept)
            _alike(
                one[half + 1 :],
                _stepped(third, observations, masks, half, steps, seed),
                "a restored world continues differently",
            )
        finally:
            third.close()
        other = _played(first, 1, seed + 1)
        assert not np.array_equal(one[0]["features"], other[0]["features"]), "the seed changes nothing"
    finally:
        first.close()
        second.close()
    returns = getattr(first, "returns", None)
    assert returns is None or -np.inf < returns[0] < returns[1] < np.inf, f"`returns` is {returns!r}, not (low, high)"


def _played(world: Any, steps: int, seed: int) -> list[dict[str, Any]]:
    observations, masks = world.reset(seed)
    return [_seen(world, observations, masks), *_stepped(world, observations, masks, 0, steps, seed)]


def _stepped(
    world: Any, observations: Observations, masks: Mapping[str, Any], first: int, last: int, seed: int
) -> list[dict[str, Any]]:
    """What random allowed actions give from step `first` on; the draws of a step depend on its number alone."""
    history: list[dict[str, Any]] = []
    space = world.space
    even = {head.name: np.zeros((world.count, len(head.choices))) for head in space.heads}
    for step in range(first, last):
        allowed = {name: _numpy(mask) for name, mask in masks.items()}
        check_masks(space, allowed, world.count)
        actions = draw(space, even, allowed, [seed + 1000 * step + row for row in range(world.count)]).actions
        result = world.step(like(masks, actions))
        observations, masks = result.observations, result.masks
        seen = _seen(world, observations, masks)
        for name in ("rewards", "terminated", "truncated"):
            seen[name] = _numpy(getattr(result, name))
            assert seen[name].shape == (world.count,), f"{name} are {seen[name].shape}, expected {(world.count,)}"
        assert np.isfinite(seen["rewards"]).all(), f"a reward is not a finite number: {seen['rewards']}"
        over = seen["terminated"] | seen["truncated"]
        if over.any():
            final = result.info["final"]
            assert len(final) == over.sum(), (
                f"{over.sum()} episodes ended, and there are {len(final)} final observations"
            )
        history.append(seen)
    return history


def _seen(world: Any, observations: Observations, masks: Mapping[str, Any]) -> dict[str, Any]:
    features, indices = _numpy(observations.features), _numpy(observations.indices)
    assert features.shape == (world.count, world.features), f"features are {features.shape}, expected {world.features}"
    assert np.isfinite(features).all(), "an observation is not a finite number"
    assert indices.shape == (world.count, len(world.indices)), f"indices are {indices.shape}"
    for column, size in enumerate(world.indices):
        assert ((indices[:, column] >= 0) & (indices[:, column] < size)).all(), f"index {column} is out of range"
    check_masks(world.space, {name: _numpy(mask) for name, mask in masks.items()}, world.count)
    return {"features": features, "indices": indices, **{f"mask of {name}": _numpy(masks[name]) for name in masks}}


def _alike(one: list[dict[str, Any]], other: list[dict[str, Any]], message: str) -> None:
    for step, (here, there) in enumerate(zip(one, other, strict=True)):
        assert here.keys() == there.keys(), f"{message} (step {step})"
        for name in here:
            assert np.array_equal(here[name], there[name]), f"{message} ({name}, step {step})"


def _numpy(values: Any) -> Any:
    return np.array(values.cpu() if hasattr(values, "cpu") else values)

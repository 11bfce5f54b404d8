"""The pipeline of a factored task: its heads, what is always allowed, and the policy that decides them.

acting = pipeline(project.servings, "plan", body, "recurrent@4f2a", digest)
drawn, opinions = acting.act(observations, acting.start(), masks, seeds)      # one step of each row
acting.play(world, seed=7).returns                                            # [copy]: whole episodes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.kits.grow.factored.draw import Drawn, conditional, draw
from headway.kits.grow.factored.masks import both, masks_together
from headway.kits.grow.factored.space import Factored, FactoredOpinions, FactoredPolicy, Head, Masks, Observations
from headway.nouns import Floats, PolicyRef, errors

if TYPE_CHECKING:
    from headway.kits.practice import Played
    from headway.project import Servings


@dataclass(frozen=True, slots=True, eq=False)
class FactoredPipeline:
    """A factored policy with the share of uniform choices, per head, and what is always allowed.

    Immutable; thread-safe. `allowed` are masks of one row, which the caller applies (`masks.both`).
    """

    policy: FactoredPolicy
    floor: float = 0.0
    allowed: Masks = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.policy.family

    def start(self, rows: int = 1) -> Floats:
        """The memory at the beginning of an episode."""
        return np.zeros((rows, self.policy.memory_width))

    def act(
        self, observations: Observations, memory: Floats, masks: Masks, seeds: Sequence[int]
    ) -> tuple[Drawn, FactoredOpinions]:
        """One step of each row."""
        opinions = self.policy.scores(observations, memory)
        space = conditional(self.policy.space, masks)
        return draw(space, opinions.scores, masks, seeds, floor=self.floor), opinions

    def play(self, world: Any, *, seed: int) -> Played:
        """One whole episode of every copy of a factored world: what would be served, masks and floor included.

        The memory of a copy begins with zeros. Two pipelines with the same seed meet the same beginnings and the same
        numbers for their own draws.
        """
        from headway.kits.practice import MOST_STEPS, Played, check_returns

        _check_world(world, self.policy.space)
        count = world.count
        observations, masks = world.reset(seed)
        memory = self.start(count)
        rng = np.random.default_rng([seed, 0x91A4])
        returns, over = np.zeros(count), np.zeros(count, dtype=np.bool_)
        metrics: dict[str, Any] = {}
        for _ in range(MOST_STEPS):
            seeds = rng.integers(0, 1 << 62, size=count).tolist()
            allowed = both({name: _numpy(mask) for name, mask in masks.items()}, _rows(self.allowed, count))
            drawn, opinions = self.act(_plain(observations), memory, allowed, seeds)
            result = world.step(like(masks, drawn.actions))
            observations, masks, memory = result.observations, result.masks, opinions.memory
            returns += np.where(over, 0.0, _numpy(result.rewards))
            for name, values in result.info.get("metrics", {}).items():
                metrics.setdefault(name, np.zeros(count))
                metrics[name] += np.where(over, 0.0, _numpy(values))
            over |= _numpy(result.terminated) | _numpy(result.truncated)
            if over.all():
                check_returns(returns)
                return Played(returns, metrics)
        raise errors.InvalidInput(
            f"An episode of the world has not ended after {MOST_STEPS:,} steps.",
            code="bad_world",
            hint="Give it a horizon.",
        )


@dataclass(frozen=True, slots=True)
class UniformHeads:
    """Every allowed choice of every head is as likely as the others; it reads no observation and remembers nothing."""

    space: Factored
    family: str = "uniform"
    memory_width: int = 0
    features: int = 0
    indices: tuple[int, ...] = ()

    def scores(self, observations: Observations, memory: Floats) -> FactoredOpinions:
        rows = len(observations)
        even = {head.name: np.zeros((rows, len(head.choices))) for head in self.space.heads}
        return FactoredOpinions(even, memory, np.zeros(rows))


def pipeline(servings: Servings, task: str, body: Mapping[str, Any], ref: str, digest: str) -> FactoredPipeline:
    """What acts under a configuration body; of a built-in policy, every allowed choice is as likely as the others."""
    space = Factored(
        tuple(Head(name, tuple(choices)) for name, choices in body["heads"]),
        {choice: tuple(used) for choice, used in body["needs"].items()},
    )
    _, allowed = masks_together(space, body["masks"])
    if PolicyRef.parse(ref).built_in:
        return FactoredPipeline(UniformHeads(space), servings.floor(body), allowed)
    policy: Any = servings.policy(task, body, ref, digest)
    other = getattr(policy, "space", None)
    if other is None or (other.heads, other.relevant) != (space.heads, space.relevant):
        theirs = "one of several candidates" if other is None else _sizes(other)
        raise errors.Conflict(
            f"{ref} decides {theirs}; the task {task!r} has {_sizes(space)}.",
            code="other_heads",
            hint="Set `heads` and `needs` of the task to those that the policy practised with.",
        )
    return FactoredPipeline(policy, servings.floor(body), allowed)


def _sizes(space: Factored) -> str:
    """The heads in words; two spaces of the same sizes differ in their choices or in what these need."""
    return "the heads " + ", ".join(f"{head.name} {len(head.choices)}" for head in space.heads)


def _check_world(world: Any, mine: Factored) -> None:
    space = getattr(world, "space", None)
    if space is None or (space.heads, space.relevant) != (mine.heads, mine.relevant):
        raise errors.InvalidInput(
            f"The world's actions are {getattr(space, 'names', 'not factored')} with sizes "
            f"{getattr(space, 'sizes', ())}; the task's are {mine.names} with sizes {mine.sizes}.",
            code="not_a_choice",
            hint="Only a policy for the world's own heads can be proven in it.",
        )


def _rows(masks: Mapping[str, Any], count: int) -> dict[str, Any]:
    return {name: np.repeat(mask, count, axis=0) for name, mask in masks.items()}


def _plain(observations: Observations) -> Observations:
    return Observations(_numpy(observations.features).astype(np.float64), _numpy(observations.indices))


def _numpy(values: Any) -> Any:
    """An array of a world, which may be a tensor on any device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def like(masks: Mapping[str, Any], actions: Any) -> Any:
    """Actions in the form of the world's arrays: numpy's, or tensors of its device."""
    some: Any = next(iter(masks.values()), None)
    return some.new_tensor(actions.tolist()).long() if hasattr(some, "new_tensor") else actions

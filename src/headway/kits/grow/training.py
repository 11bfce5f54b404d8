"""The training loop of the family recurrent: collect, update, evaluate, repeat; and its exact snapshot.

    training = Training(make, knobs, seed=7)
    training.run(watch=lambda training: …)
    arrays, told = training.state()                  # weights, optimiser, random numbers and the world
    Training(make, knobs, seed=7).load(arrays, told)

A run that is interrupted after an update and resumed continues bit for bit like one that was not, on a CPU. (On a GPU
some sums have no fixed order.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.kits.grow.collect import FactoredStage, Sequences, play
from headway.kits.grow.knobs import RecurrentKnobs, network_knobs
from headway.kits.grow.network import Packed, RecurrentNetwork
from headway.kits.grow.shapes import RecurrentShape
from headway.kits.grow.update import (
    Choices,
    RecurrentUpdate,
    chosen,
    entropy_bonus,
    forward,
    judge,
    masks_of,
    minibatches,
    precision,
    rescale,
    take_step,
    update,
)
from headway.kits.grow.worlds import FactoredWorld, random_from, random_state
from headway.kits.practice import Evaluation, available, ppo
from headway.nouns import Progress, errors

_HORIZON = 128


def shape_for(world: FactoredWorld, knobs: RecurrentKnobs) -> RecurrentShape:
    """The network that a world and these knobs ask for."""
    return RecurrentShape.of(
        world.space, features=world.features, indices=tuple(world.indices),
        feedback_columns=tuple(getattr(world, "feedback", ())), **network_knobs(knobs),
    )  # fmt: skip


@dataclass(slots=True)
class _Counts:
    """What a run has come to."""

    steps: int = 0
    updates: int = 0
    adam: int = 0
    curve: list[Evaluation] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)  # of the last training episodes, with exploration
    reached: bool = False
    paid: bool = False  # whether any reward was not 0


class Training:
    """One run. `make(count)` makes copies of the world."""

    def __init__(
        self, make: Callable[[int], FactoredWorld], knobs: RecurrentKnobs, *, seed: int, device: str = "cpu"
    ) -> None:
        self.make, self.knobs, self.seed, self.device = make, knobs, seed, available(device)
        self.world = make(knobs.envs)
        self.shape = shape_for(self.world, knobs)
        self.network = RecurrentNetwork(self.shape, seed=seed).to(self.device)
        if knobs.compile:
            self.network.scores = torch.compile(self.network.scores)  # type: ignore[method-assign]
        self.optimiser = torch.optim.Adam(
            self.network.parameters(), lr=knobs.rate, eps=1e-5, fused=self.device in ("cpu", "cuda")
        )
        # In rollouts shorter than episodes, copies in step would show one phase of an episode at a time.
        stagger = self.horizon < int(getattr(self.world, "horizon", 0))
        self.stage = FactoredStage(self.world, self.network, seed=seed, scale=knobs.scale, stagger=stagger)
        self.rng = np.random.default_rng([seed, 0x6409])
        self.counts = _Counts()
        self.last: tuple[Sequences, RecurrentUpdate] | None = None
        self.metrics: dict[str, float] = {}  # of the last update
        self.agreement: float | None = None  # with the teacher that it imitated
        self.whole = False  # whether this is the state after an update and its evaluation, which `load` continues from
        self._trial: FactoredWorld | None = None

    @property
    def horizon(self) -> int:
        return self.knobs.horizon or int(getattr(self.world, "horizon", 0)) or _HORIZON

    def run(
        self, *, progress: Progress | None = None, watch: Callable[[Training], bool | None] | None = None,
        detailed: bool = False,
    ) -> None:  # fmt: skip
        """Practise until `steps` are done or the target is reached; `watch` may end it by returning True."""
        knobs, counts = self.knobs, self.counts
        every = knobs.evaluate_every or max(knobs.steps // 40, 1)
        if knobs.imitate and not counts.updates:
            self.agreement = imitate(self, knobs.imitate)
        if counts.steps >= knobs.steps and not (counts.curve and counts.curve[-1].steps == counts.steps):
            self._look()  # killed between the last update and this
        while counts.steps < knobs.steps and not counts.reached:
            before, self.whole = counts.steps, False
            self.once(detailed=detailed)
            if progress is not None:
                progress("steps", min(counts.steps, knobs.steps), knobs.steps)
            if counts.steps // every > before // every or counts.steps >= knobs.steps:
                self._look()
            self.whole = True
            if watch is not None and watch(self):
                break

    def once(self, *, detailed: bool = False) -> RecurrentUpdate:
        """One rollout and its update."""
        knobs, counts = self.knobs, self.counts
        if knobs.schedule == "linear":
            for group in self.optimiser.param_groups:
                group["lr"] = knobs.rate * max(1.0 - counts.steps / knobs.steps, 0.0)
        sequences = self.stage.collect(self.horizon, chunk=knobs.chunk, watch=detailed)
        counts.paid = counts.paid or bool(sequences.rewards.any())
        updated = update(
            self.network, self.optimiser, sequences, knobs, self.rng, self.stage.rng,
            masks_after=self.stage.now[2], paid=counts.paid, watch=detailed,
        )  # fmt: skip
        self.stage.follow(sequences)
        counts.steps += sequences.steps
        counts.updates += 1
        counts.returns = (counts.returns + sequences.returns)[-1000:]
        self.last = (sequences, updated)
        self.metrics = {name: updated.stats[name] for name in ("entropy", "kl", "value_loss")}
        if updated.judged is not None:
            self.metrics["explained_variance"] = updated.judged.explained_variance
        return updated

    def _look(self) -> None:
        knobs, counts = self.knobs, self.counts
        mean = self.evaluate(knobs.episodes, self.seed + 1_000_003)
        counts.curve.append(Evaluation(counts.steps, mean, knobs.episodes))
        if knobs.target is not None and mean >= knobs.target:
            # The first of many evaluations to reach a target is usually lucky; fresh episodes confirm it.
            counts.reached = self.evaluate(knobs.confirm, self.seed + 2_000_003 + counts.steps) >= knobs.target

    def evaluate(self, episodes: int, seed: int) -> float:
        """The mean return of greedy episodes in copies of their own."""
        if self._trial is None:
            self._trial = self.make(min(self.knobs.episodes, 64))
        return float(np.mean(play(self._trial, self.network, episodes=episodes, seed=seed)))

    def close(self) -> None:
        for world in (self.world, self._trial):
            if world is not None:
                world.close()

    # -- snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and JSON for `load`."""
        arrays: dict[str, Any] = {f"network.{name}": array for name, array in self.network.tensors().items()}
        for name, parameter in self.network.named().items():
            mine = self.optimiser.state.get(parameter, {})
            if mine:
                arrays[f"adam.mean.{name}"] = _array(mine["exp_avg"])
                arrays[f"adam.square.{name}"] = _array(mine["exp_avg_sq"])
                self.counts.adam = int(mine["step"])
        stage = self.stage
        arrays |= {
            "stage.memory": _array(stage.memory), "stage.paid": _array(stage.paid), "stage.age": _array(stage.age),
            "stage.random": _array(stage.rng.get_state()), "stage.mean": stage.scale.mean,
            "stage.variance": stage.scale.variance, "random": random_state(self.rng),
        }  # fmt: skip
        arrays |= {f"world.{name}": _array(value) for name, value in self.world.state().items()}
        counts = self.counts
        told = {
            "steps": counts.steps, "updates": counts.updates, "adam": counts.adam, "seen": stage.scale.count,
            "curve": [[point.steps, point.mean, point.episodes] for point in counts.curve],
            "returns": counts.returns, "paid": counts.paid, "shape": self.shape.to_json(),
            "reached": counts.reached, "target": self.knobs.target, "agreement": self.agreement,
            "metrics": self.metrics,
        }  # fmt: skip
        return arrays, told

    @torch.no_grad()
    def load(self, arrays: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        """Continue from a snapshot; an error names both networks if it is of another shape."""
        RecurrentShape.from_json(told["shape"]).check(self.shape, mine="the snapshot", theirs="the run")
        self.network.load({name[8:]: array for name, array in arrays.items() if name.startswith("network.")})
        counts, stage = self.counts, self.stage
        counts.steps, counts.updates, counts.adam = (int(told[name]) for name in ("steps", "updates", "adam"))
        counts.curve = [Evaluation(int(steps), float(mean), int(number)) for steps, mean, number in told["curve"]]
        counts.returns, counts.paid = [float(paid) for paid in told["returns"]], bool(told["paid"])
        counts.reached = bool(told.get("reached")) and told.get("target") == self.knobs.target
        self.agreement = told.get("agreement")
        self.metrics = {name: float(value) for name, value in told.get("metrics", {}).items()}
        for name, parameter in self.network.named().items():
            if f"adam.mean.{name}" in arrays:
                self.optimiser.state[parameter] = {
                    "step": torch.tensor(float(counts.adam), device=self.device),
                    "exp_avg": torch.tensor(arrays[f"adam.mean.{name}"], device=self.device),
                    "exp_avg_sq": torch.tensor(arrays[f"adam.square.{name}"], device=self.device),
                }
        stage.memory = torch.tensor(arrays["stage.memory"], device=self.device)
        stage.paid = torch.tensor(arrays["stage.paid"], device=self.device)
        stage.age = torch.tensor(arrays["stage.age"], device=self.device)
        stage.rng.set_state(torch.tensor(arrays["stage.random"]))
        stage.scale.mean, stage.scale.variance = np.array(arrays["stage.mean"]), np.array(arrays["stage.variance"])
        stage.scale.count = float(told["seen"])
        self.rng = random_from(arrays["random"])
        world = {name[6:]: array for name, array in arrays.items() if name.startswith("world.")}
        stage.continue_from(world)


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


_SEED = 5_003  # apart from that of practice
_ROUNDS = 8  # rollouts from which the critic alone learns


def imitate(training: Training, teacher: str) -> float:
    """Learn what the teacher does; how often the network's likeliest operation is then the teacher's.

    Every operation and head counts the same, however rarely the teacher uses it. The entropy bonus of practice counts
    `imitate_doubt` times over, so that practice can still explore. Then the network acts, and its critic alone learns:
    practice with a critic that does not know the policy would undo what was imitated.
    """
    knobs, network = training.knobs, training.network
    world = training.make(knobs.envs * knobs.imitate_episodes)
    find, horizon = getattr(world, "teacher", None), int(getattr(world, "horizon", 0))
    if find is None or not horizon:
        raise errors.InvalidInput(
            f"This world has no teachers, so there is no {teacher!r} to imitate.",
            code="unknown_choice",
            hint="Omit the knob imitate.",
        )
    stage = FactoredStage(world, network, seed=training.seed + _SEED, scale=knobs.scale)
    sequences = stage.collect(horizon, teacher=find(teacher))
    world.close()
    groups = minibatches(sequences, knobs, training.rng, str(network.means.device))
    whole = replace(knobs, lam=1.0)  # returns are what the episodes came to
    judged = judge(network, sequences, groups, whole, stage.rng)
    if knobs.returns == "popart":
        rescale(network, judged.returns)
    mean, deviation = network.value_scale
    returns = (torch.as_tensor(judged.returns.ravel(), device=network.means.device) - mean) / deviation
    optimiser = torch.optim.Adam(network.parameters(), lr=knobs.imitate_rate, eps=1e-5)
    for _ in range(knobs.imitate_passes):
        for packed in groups:
            take_step(network, optimiser, _loss(training, sequences, packed, returns[packed.order]), knobs)
        groups = minibatches(sequences, knobs, training.rng, str(network.means.device))
    agreement = _agreement(training, sequences, groups)
    _fit_critic(training)
    return agreement


def _fit_critic(training: Training) -> None:
    """The network acts in the copies of practice, and its critic learns what that comes to; nothing else changes."""
    knobs, network = training.knobs, training.network
    device = network.means.device
    critic = [parameter for name, parameter in network.named().items() if name.startswith("value.")]
    optimiser = torch.optim.Adam(critic, lr=1e-3)
    for _ in range(_ROUNDS):
        sequences = training.stage.collect(training.horizon, chunk=knobs.chunk)
        groups = minibatches(sequences, knobs, training.rng, str(device))
        judged = judge(network, sequences, groups, knobs, training.stage.rng, training.stage.now[2])
        if knobs.returns == "popart":
            rescale(network, judged.returns)
        mean, deviation = network.value_scale
        returns = (torch.as_tensor(judged.returns.ravel(), device=device) - mean) / deviation
        with torch.no_grad(), precision(network, knobs):
            outputs = [forward(network, sequences, packed).float() for packed in groups]
        lead = sequences.actions.reshape(sequences.steps, -1)[:, 0]
        for _ in range(knobs.epochs):
            for output, packed in zip(outputs, groups, strict=True):
                value = network.value(output, None if network.shape.critic == "state" else lead[packed.order])
                optimiser.zero_grad(set_to_none=True)
                (value - returns[packed.order]).square().mean().backward()
                optimiser.step()


def _seen(training: Training, sequences: Sequences, packed: Packed) -> tuple[Tensor, Choices, Tensor]:
    network, space = training.network, training.network.shape.space
    actions = sequences.actions.reshape(-1, len(space.heads))[packed.order]
    with precision(network, training.knobs):
        output = forward(network, sequences, packed)
        scores = network.scores(output)
        value = network.value(output, None if network.shape.critic == "state" else actions[:, 0])
    return value, chosen(space, scores, masks_of(sequences, packed.order), actions), actions[:, 0]


def _loss(training: Training, sequences: Sequences, packed: Packed, returns: Tensor) -> Tensor:
    knobs = training.knobs
    value, choices, lead = _seen(training, sequences, packed)
    first, *others = training.network.shape.space.names
    taken = torch.stack([lead == choice for choice in range(training.network.shape.space.sizes[0])])
    parts = [ppo.masked_mean(choices.logs[first], where) * where.any() for where in taken]
    parts += [ppo.masked_mean(choices.logs[head], choices.counts[head]) for head in others]
    wrong = -torch.stack(parts).sum()
    doubt = knobs.entropy * knobs.imitate_doubt * entropy_bonus(choices, knobs.entropy_heads, by="head")
    return wrong - doubt + knobs.value * (value - returns).square().mean()


@torch.no_grad()
def _agreement(training: Training, sequences: Sequences, groups: list[Packed]) -> float:
    """The share of steps in which the teacher's operation has a probability above one half."""
    lead = training.network.shape.space.lead.name
    shares = [_seen(training, sequences, packed)[1].logs[lead].exp() > 0.5 for packed in groups]
    return float(torch.cat(shares).float().mean())

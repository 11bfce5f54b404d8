"""Acts in copies of a factored world with a memory, and records sequences.

    stage = FactoredStage(world, network, seed=7)
    sequences = stage.collect(horizon=150, chunk=0)          # [time, copy, …], tensors on the network's device
    returns = play(world, network, episodes=64, seed=3)      # greedy

The memory of a copy is set to 0 where its episode ends. Actions are drawn by Gumbel noise from one generator, so that a
restored stage draws what the interrupted one would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.factored.space import Factored, Observations
from headway.kits.grow.network import RecurrentNetwork
from headway.kits.grow.worlds import FactoredWorld, StepResult
from headway.kits.practice import RunningScale, refuse_not_finite


@dataclass(frozen=True, slots=True)
class Final:
    """Observations after which episodes were truncated, with the memories that go with them."""

    time: int
    rows: Tensor
    features: Tensor
    indices: Tensor
    memory: Tensor


@dataclass(frozen=True, slots=True)
class Sequences:
    """A rollout, [time, copy, …]."""

    features: Tensor
    indices: Tensor
    masks: dict[str, Tensor]
    actions: Tensor
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    begins: NDArray[np.bool_]  # where a segment starts: an episode, a chunk, the rollout
    memories: dict[int, Tensor]  # time → [copy, …]: stored where chunks start
    last: Final  # after the rollout
    finals: list[Final]
    returns: list[float]  # of the episodes that ended
    lengths: list[int]
    metrics: dict[str, float]  # means of the world's own
    credits: NDArray[np.float32]  # of `info["credit"]`, if the world gives it
    magnitudes: NDArray[np.float32] | None  # [time, copy, 2]: mean |hidden| and |cell|
    ages: NDArray[np.int64]  # [time, copy]: the step in its episode

    @property
    def steps(self) -> int:
        return int(self.rewards.size)

    def memory(self, first: Tensor) -> Tensor:
        """The memory before each of these flat places: stored at the start of a chunk, else 0."""
        count = self.rewards.shape[1]
        time, row = first // count, first % count
        memory = torch.zeros(len(first), self.last.memory.shape[1], device=first.device)
        for begin, stored in self.memories.items():
            at = time == begin
            memory[at] = stored[row[at]]
        return memory


def draw(
    space: Factored, table: Tensor, scores: Mapping[str, Tensor], masks: Mapping[str, Tensor], noise: Tensor | None
) -> Tensor:
    """[copy, head]: the lead, then the heads that it uses; others 0. Without noise the likeliest choices."""
    columns: list[Tensor] = []
    begin = 0
    for place, head in enumerate(space.heads):
        score, mask = scores[head.name], masks.get(head.name)
        if noise is not None:
            score = score + noise[:, begin : begin + score.shape[1]]
            begin += score.shape[1]
        if mask is not None:
            if place and head.name in space.conditional:
                mask = mask[torch.arange(len(mask), device=mask.device), columns[0]]
            score = score.masked_fill(~mask, -torch.inf)
        best = score.argmax(1)
        columns.append(best * table[columns[0], place] if place else best)
    return torch.stack(columns, 1) if len(columns) > 1 else columns[0][:, None]


class FactoredStage:
    """The copies of a world, their present observations and memories, and the running scale of features."""

    def __init__(
        self, world: FactoredWorld, network: RecurrentNetwork, *, seed: int, scale: bool = True, stagger: bool = False
    ) -> None:
        self.world, self.network = world, network
        self.device = network.means.device
        self.scaling = scale and not getattr(world, "scaled", False)
        self.scale = RunningScale.of(world.features)
        self.rng = torch.Generator(self.device).manual_seed(seed)
        self.table = torch.tensor(world.space.relevant, device=self.device).long()
        begun = world.reset(seed)
        if stagger and hasattr(world, "stagger"):
            begun = world.stagger()
        self.now = self._seen(*begun)
        self.memory = torch.zeros(world.count, network.shape.memory_width, device=self.device)
        self.paid = torch.zeros(world.count, device=self.device)
        self.age = torch.zeros(world.count, dtype=torch.int64, device=self.device)

    def _seen(self, observations: Observations, masks: Mapping[str, Any]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        features, indices = seen(observations, self.device)
        return features, indices, {name: torch.as_tensor(mask, device=self.device) for name, mask in masks.items()}

    @torch.no_grad()
    def collect(
        self, horizon: int, *, chunk: int = 0, watch: bool = False, teacher: Callable[[], Any] | None = None
    ) -> Sequences:
        """`horizon` steps of every copy, by a teacher if there is one; with `watch` also magnitudes of the memory."""
        world, network, space = self.world, self.network, self.world.space
        count, total = world.count, sum(space.sizes)
        features = torch.empty(horizon, count, world.features, device=self.device)
        indices = torch.empty(horizon, count, len(world.indices), dtype=torch.int64, device=self.device)
        masks = {
            name: torch.empty((horizon, *mask.shape), dtype=torch.bool, device=self.device)
            for name, mask in self.now[2].items()
        }
        actions = torch.empty(horizon, count, len(space.heads), dtype=torch.int64, device=self.device)
        record = _WorldLog(horizon, count, self.device)
        begins = np.zeros((horizon, count), dtype=np.bool_)
        noise = self._noise(horizon, count, total)
        memories: dict[int, Tensor] = {}
        magnitudes = torch.empty(horizon, count, 2, device=self.device) if watch else None
        finals: list[Final] = []
        for t in range(horizon):
            features[t], indices[t] = self.now[0], self.now[1]
            for name, mask in self.now[2].items():
                masks[name][t] = mask
            if t == 0 or (chunk and t % chunk == 0):
                memories[t], begins[t] = self.memory, True
            output, memory = network.step(features[t], indices[t], self.memory)
            if teacher is None:
                actions[t] = draw(space, self.table, network.scores(output), self.now[2], noise[t])
            else:
                actions[t] = torch.as_tensor(teacher(), device=self.device)
            if magnitudes is not None:
                states = memory[:, : 2 * network.shape.layers * network.shape.width]
                magnitudes[t] = states.reshape(count, -1, 2, network.shape.width).abs().mean(dim=(1, 3))
            result = world.step(given(world, actions[t]))
            over, cut = record.add(t, result, self.age)
            self.paid, self.age = record.pay(t, self.paid, self.age)
            if "final" in result.info and bool(cut.any()):
                finals.append(self._final(t, result, over | cut, cut, memory))
            self.memory = memory * record.going(t)[:, None]
            self.now = self._seen(result.observations, result.masks)
        done = record.done()
        begins[1:] |= done[:-1] if network.shape.remember else True
        last = Final(horizon, torch.arange(count, device=self.device), self.now[0], self.now[1], self.memory)
        sound = bool(torch.isfinite(features).all()) and bool(torch.isfinite(last.features).all())
        refuse_not_finite(seen=sound, rewards=bool(torch.isfinite(record.rewards).all()))
        return Sequences(
            features=features, indices=indices, masks=masks, actions=actions, begins=begins, memories=memories,
            last=last, finals=finals, magnitudes=None if magnitudes is None else magnitudes.cpu().numpy(),
            **record.arrays(),
        )  # fmt: skip

    def continue_from(self, state: Mapping[str, Any]) -> None:
        """Go on with a stored state of the world."""
        self.now = self._seen(*self.world.restore(state))

    def follow(self, sequences: Sequences) -> None:
        """Update the scale of the features after an update; during it they are frozen."""
        if not self.scaling:
            return
        self.scale.add(sequences.features.reshape(-1, self.world.features).cpu().numpy())
        deviation = np.sqrt(self.scale.variance)
        self.network.means.copy_(torch.as_tensor(self.scale.mean))
        self.network.deviations.copy_(torch.as_tensor(np.where(deviation > 1e-6, deviation, 1.0)))

    def _noise(self, horizon: int, count: int, total: int) -> Tensor:
        uniform = torch.rand(horizon, count, total, generator=self.rng, device=self.device)
        return -torch.log(-torch.log(uniform.clamp(1e-20, 1.0 - 1e-7)))

    def _final(self, t: int, result: StepResult, done: Tensor, cut: Tensor, memory: Tensor) -> Final:
        features, indices = seen(result.info["final"], self.device)
        inside = cut[done]  # `info["final"]` has a row per ended episode
        rows = cut.nonzero()[:, 0]
        return Final(t, rows, features[inside], indices[inside], memory[rows])


class _WorldLog:
    """What the world gave in each step of a rollout."""

    def __init__(self, horizon: int, count: int, device: torch.device) -> None:
        self.rewards = torch.empty(horizon, count, device=device)
        self.over = torch.empty(horizon, count, dtype=torch.bool, device=device)
        self.cut = torch.empty(horizon, count, dtype=torch.bool, device=device)
        self.ended = torch.zeros(horizon, count, device=device)
        self.ages = torch.empty(horizon, count, dtype=torch.int64, device=device)
        self.metrics: dict[str, list[Any]] = {}
        self.credits: list[Any] = []

    def add(self, t: int, result: StepResult, age: Tensor) -> tuple[Tensor, Tensor]:
        self.rewards[t] = torch.as_tensor(result.rewards, dtype=torch.float32, device=self.rewards.device)
        self.over[t] = torch.as_tensor(result.terminated, device=self.rewards.device)
        self.cut[t] = torch.as_tensor(result.truncated, device=self.rewards.device)
        self.ages[t] = age
        for name, values in result.info.get("metrics", {}).items():
            self.metrics.setdefault(name, []).append(torch.as_tensor(values).double().mean())
        if "credit" in result.info:
            self.credits.append(torch.as_tensor(result.info["credit"]))
        return self.over[t], self.cut[t]

    def going(self, t: int) -> Tensor:
        return ~(self.over[t] | self.cut[t])

    def pay(self, t: int, paid: Tensor, age: Tensor) -> tuple[Tensor, Tensor]:
        """Add the rewards; what an ended episode came to is kept."""
        going = self.going(t)
        paid = paid + self.rewards[t]
        self.ended[t] = paid
        return paid * going, (age + 1) * going

    def done(self) -> NDArray[np.bool_]:
        return (self.over | self.cut).cpu().numpy()

    def arrays(self) -> dict[str, Any]:
        done = self.done()
        ages = self.ages.cpu().numpy()
        return {
            "rewards": self.rewards.cpu().numpy(),
            "terminated": self.over.cpu().numpy(),
            "truncated": (self.cut & ~self.over).cpu().numpy(),
            "returns": self.ended.cpu().numpy()[done].tolist(),
            "lengths": (ages[done] + 1).tolist(),
            "metrics": {name: float(torch.stack(values).mean()) for name, values in self.metrics.items()},
            "credits": torch.stack(self.credits).float().cpu().numpy() if self.credits else np.zeros(0, np.float32),
            "ages": ages,
        }


def seen(observations: Observations, device: torch.device) -> tuple[Tensor, Tensor]:
    """Features [row, …] as float32 and indices [row, …], on the device."""
    features = torch.as_tensor(observations.features, dtype=torch.float32, device=device)
    return features, torch.as_tensor(observations.indices, dtype=torch.int64, device=device)


def given(world: FactoredWorld, actions: Tensor) -> Any:
    """Actions as a world takes them: tensors if it has a device, else numpy's on the CPU, wherever the network is."""
    return actions if getattr(world, "device", None) else actions.cpu().numpy()


@torch.no_grad()
def play(
    world: FactoredWorld, network: RecurrentNetwork, *, episodes: int, seed: int, greedy: bool = True
) -> list[float]:
    """Returns of the first `episodes` episodes, the same number from every copy: short ones are not favoured."""
    device, count = network.means.device, world.count
    table = torch.tensor(world.space.relevant, device=device).long()
    rng = torch.Generator(device).manual_seed(seed)
    observations, masks = world.reset(seed)
    memory = torch.zeros(count, network.shape.memory_width, device=device)
    quota = -(-episodes // count)
    returns: list[list[float]] = [[] for _ in range(count)]
    paid = np.zeros(count)
    while any(len(ended) < quota for ended in returns):
        output, memory = network.step(*seen(observations, device), memory)
        allowed = {name: torch.as_tensor(mask, device=device) for name, mask in masks.items()}
        noise = None
        if not greedy:
            noise = -torch.log(-torch.log(torch.rand(count, sum(world.space.sizes), generator=rng, device=device)))
        actions = draw(world.space, table, network.scores(output), allowed, noise)
        result = world.step(given(world, actions))
        observations, masks = result.observations, result.masks
        paid += np.asarray(torch.as_tensor(result.rewards).cpu())
        done = np.asarray((torch.as_tensor(result.terminated) | torch.as_tensor(result.truncated)).cpu())
        for place in np.flatnonzero(done).tolist():
            returns[place].append(float(paid[place]))
            paid[place] = 0.0
        if done.any():
            memory = memory * torch.as_tensor(~done, device=device)[:, None]
    turns = [ended[turn] for turn in range(quota) for ended in returns]
    return turns[:episodes]

"""The world `morph`: hosts learn, and a policy grows seeds in their slots.

    world = MorphWorld(32, held_out=False)
    observations, masks = world.reset(seed=7)
    result = world.step(actions)                  # int [host, head], see space.py

A step is one epoch of every host: operations, alphas, a few minibatches, validation with every subset of seeds,
reward. An episode has `horizon` epochs, or ends when the governor stops it. Hosts are rows of tensors and never wait
for one another; on CUDA everything stays on the device.

`held_out=True` (evaluation alone) adds the accuracy on test images to the result of an episode.
`twin=True` trains a second trunk beside each host on the same minibatches, without seeds: what growth changed, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.kits.grow.factored.space import Observations
from headway.kits.grow.morph.blueprints import EMPTY, SLOTS, SPACE
from headway.kits.grow.morph.data import Split, material
from headway.kits.grow.morph.epoch import EpochResult, learn, learn_hosts, trunk_moments
from headway.kits.grow.morph.host import Graft, Group, Sight, ablations, amplitude, fresh_trunk, graded, groups, marks
from headway.kits.grow.morph.kernels import fresh
from headway.kits.grow.morph.lifecycle import SeedStage, Slots, allowed, parameters_of
from headway.kits.grow.morph.observation import FEATURES, FEEDBACK, observed
from headway.kits.grow.morph.operations import Applied, advance_alpha, apply, pass_epoch
from headway.kits.grow.morph.recording import RecordedEpochs
from headway.kits.grow.morph.reward import (
    ACTION_COST,
    PENALTY,
    RENT,
    RewardMode,
    credited,
    interactions,
    leave_one_out,
    potential,
    rent,
    shaping,
    shapley,
)
from headway.kits.grow.morph.state import (
    SNAPSHOT_EVERY,
    WINDOW,
    History,
    HostRows,
    Snapshot,
    failed,
    from_arrays,
    mixed_rows,
    to_arrays,
)
from headway.kits.grow.worlds import StepResult

HORIZON = 50
BUDGET = 3 * int(parameters_of(torch.device("cpu")).max())  # in parameters: the largest blueprint in every slot
_STREAMS = ("hosts", "batches", "seeds")  # of random numbers: what a policy does never changes hosts and batches


class MorphWorld:
    """Hosts that grow, stepped together (`FactoredWorld`)."""

    space = SPACE
    features = FEATURES
    indices = (EMPTY + 1,) * SLOTS
    feedback = FEEDBACK
    scaled = True
    returns = (-2.0, 1.2)

    def __init__(
        self,
        count: int,
        *,
        source: str = "digits",
        device: str = "cpu",
        mode: RewardMode = "simplified",
        horizon: int = HORIZON,
        minibatches: int = 6,
        batch: int = 32,
        rate: float = 0.02,
        price: float = RENT,
        discount: float = 1.0,
        budget: int = BUDGET,
        graft: Graft = "residual",
        twin: bool = False,
        held_out: bool = False,
    ) -> None:
        self.count, self.horizon, self.mode, self.budget = count, horizon, mode, budget
        self.device = torch.device(device)
        self.minibatches, self.batch, self.rate, self.graft = minibatches, batch, rate, graft
        self.price, self.discount, self.held_out = price, discount, held_out
        self._material = material(source).to(self.device)
        self._streams = {name: torch.Generator(device=self.device) for name in _STREAMS}
        self._twin: HostRows | None = None
        self._with_twin = twin
        self._epochs = RecordedEpochs()  # on a GPU
        self.hosts: HostRows
        self.slots: Slots
        self.history: History
        self.snapshot: Snapshot
        self.masks: dict[str, Tensor] = {}

    # the interface of worlds

    def reset(self, seed: int) -> tuple[Observations, Mapping[str, Any]]:
        """New episodes for all hosts."""
        for number, name in enumerate(_STREAMS):
            self._streams[name].manual_seed((seed * len(_STREAMS) + number) & 0x7FFF_FFFF_FFFF_FFFF)
        self.hosts, self.slots, self.history, self.snapshot = self._fresh()
        if self._with_twin:
            self._twin = HostRows.of(self.hosts.trunk.clone(), self.hosts.tasks)
        return self.present()

    def stagger(self) -> tuple[Observations, Mapping[str, Any]]:
        """Let the first episodes after a reset begin at random epochs, so that they end at different times."""
        size, stream = (self.count,), self._streams["hosts"]
        self.history.epoch = torch.randint(self.horizon, size, generator=stream, device=self.device)
        return self.present()

    def step(self, actions: Any) -> StepResult:
        """One epoch of every host."""
        chosen = torch.as_tensor(actions, device=self.device).long()
        before = potential(self.slots)
        applied = apply(self.slots, chosen, self.masks, self.history.next_seed)
        self._sow(applied.germinated)
        credit = self._credit(applied)
        advance_alpha(self.slots)
        sight = self._look()
        trained = self._train(sight)
        subsets, loss, accuracy = self._validate(sight, self._material.val)
        self._measure(subsets)
        pass_epoch(self.slots)
        last = self.history.accuracies[:, -1]
        self._remember(applied, trained, loss, accuracy)
        stopped = failed(self.history, loss, accuracy, self.hosts.trunk)
        ended = stopped | (self.history.epoch >= self.horizon)
        accuracy = self._govern(stopped, accuracy)
        parts = self._reward(applied, last, accuracy, before, ended, stopped, credit)
        info = self._info(parts, subsets, accuracy, ended, stopped) | {"credit": self._out(credit)}
        self._begin_again(ended)
        seen, masks = self.present()
        none = torch.zeros_like(ended)
        return StepResult(seen, masks, self._out(parts["reward"]), self._out(ended), self._out(none), info)

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs to continue bit for bit."""
        kept = {
            **to_arrays("hosts", self.hosts),
            **to_arrays("slots", self.slots),
            **to_arrays("history", self.history),
            **to_arrays("snapshot.slots", self.snapshot.slots),
            **{f"snapshot.{name}": getattr(self.snapshot, name).cpu().numpy().copy() for name in _SNAPSHOT},
            **{f"stream.{name}": stream.get_state().numpy().copy() for name, stream in self._streams.items()},
        }
        return kept if self._twin is None else {**kept, **to_arrays("twin", self._twin)}

    def restore(self, state: Mapping[str, Any]) -> tuple[Observations, Mapping[str, Any]]:
        """Continue from `state`."""
        self.hosts = from_arrays("hosts", HostRows, state, self.device)
        self.slots = from_arrays("slots", Slots, state, self.device)
        self.history = from_arrays("history", History, state, self.device)
        kept = {name: torch.from_numpy(np.array(state[f"snapshot.{name}"])).to(self.device) for name in _SNAPSHOT}
        self.snapshot = Snapshot(**kept, slots=from_arrays("snapshot.slots", Slots, state, self.device))
        for name, stream in self._streams.items():
            stream.set_state(torch.from_numpy(np.array(state[f"stream.{name}"])))
        if self._with_twin:
            self._twin = from_arrays("twin", HostRows, state, self.device)
        return self.present()

    def close(self) -> None:
        """Nothing is open."""

    # a step, in order

    def _sow(self, germinated: Tensor) -> None:
        """Draw the parameters of new seeds. Numbers are drawn for every slot of every host: rows stay independent."""
        history = self.history
        history.next_seed = history.next_seed + germinated.any(dim=1)
        new = germinated[:, :, None] | germinated[:, None, :]
        history.helped = torch.where(new, 0.0, history.helped)
        if not bool(germinated.any()):
            return
        hosts = self.hosts
        where, slot = germinated.nonzero(as_tuple=True)
        hosts.seeds[where, slot] = fresh(self.slots.blueprint[where, slot], self._streams["seeds"])
        hosts.seeds_mean[where, slot] = 0
        hosts.seeds_square[where, slot] = 0
        hosts.seeds_updates[where, slot] = 0

    def _credit(self, applied: Applied) -> Tensor:
        """[host, slot]: hindsight credit of the seeds that helped one which fossilises now."""
        given = credited(self.history.helped, applied.fossilised)
        self.history.helped = torch.where(applied.fossilised[:, None, :], 0.0, self.history.helped)
        return given

    def _look(self) -> Sight:
        """What training and validation need to know on the CPU: one copy for both."""
        slots = self.slots
        marked = marks(slots.blueprint, slots.style, slots.stage == SeedStage.TRAINING)
        computes = slots.is_in(SeedStage.TRAINING, SeedStage.BLENDING, SeedStage.HOLDING, SeedStage.FOSSILIZED)
        *known, learns, counts = torch.cat([marked, torch.stack([computes, slots.alpha > 0])]).cpu()
        return Sight(marked, torch.stack(known), learns.bool(), counts.bool())

    def _groups(self, sight: Sight, live: Tensor) -> list[Group]:
        slots = self.slots
        strengths = amplitude(slots.alpha, slots.style)
        return groups(self.hosts.seeds, slots.blueprint, strengths, sight.marked, live, sight.known)

    def _train(self, sight: Sight) -> EpochResult:
        hosts, slots, split = self.hosts, self.slots, self._material.train
        shape = (self.minibatches, self.count, self.batch)
        batches = torch.randint(len(split), shape, generator=self._streams["batches"], device=self.device)
        given: dict[str, Any] = {"rate": self.rate, "graft": self.graft}
        if self.device.type == "cuda":
            seeds = (sight, slots.blueprint, amplitude(slots.alpha, slots.style))
            result, slots.gradient = self._epochs.learn(hosts, *seeds, split, batches, **given)
        else:
            result, slots.gradient = learn_hosts(hosts, self._groups(sight, sight.learns), split, batches, **given)
        if self._twin is not None:
            learn(self._twin.trunk, trunk_moments(self._twin), [], [], split, hosts.tasks, batches, **given)
        return result

    @torch.no_grad()
    def _validate(self, sight: Sight, split: Split) -> tuple[Tensor, Tensor, Tensor]:
        """(accuracy of every subset of seeds [host, subset], loss and accuracy with all [host])."""
        seeds = self._groups(sight, sight.counts)
        return graded(ablations(self.hosts.trunk, split.images, seeds), split.labels[self.hosts.tasks])

    def _measure(self, subsets: Tensor) -> None:
        slots = self.slots
        there = slots.alpha > 0
        alone = torch.where(there, leave_one_out(subsets), 0.0)
        pairs = interactions(subsets) * (there[:, :, None] & there[:, None, :])
        slots.velocity = torch.where(there & (slots.counted == 0), alone - slots.contribution, 0.0)
        slots.contribution, slots.counted = alone, torch.where(there, 0, slots.counted + 1)
        slots.interaction, slots.boost = pairs.sum(dim=2) / (SLOTS - 1), pairs.amax(dim=2).clamp(min=0)
        self.history.helped = self.history.helped + pairs.clamp(min=0)

    def _remember(self, applied: Applied, trained: EpochResult, loss: Tensor, accuracy: Tensor) -> None:
        history = self.history
        history.epoch = history.epoch + 1
        history.train_change = trained.loss - history.train_loss
        history.train_loss, history.train_accuracy = trained.loss, trained.accuracy
        history.losses = torch.cat([history.losses[:, 1:], loss[:, None]], dim=1)
        history.accuracies = torch.cat([history.accuracies[:, 1:], accuracy[:, None]], dim=1)
        better = accuracy > history.best_accuracy
        history.plateau = torch.where(better, 0, history.plateau + 1)
        history.best_accuracy = torch.maximum(history.best_accuracy, accuracy)
        history.last_op, history.last_success = applied.ops, applied.success.float()
        history.waits = history.waits + (applied.ops == 0)

    def _govern(self, stopped: Tensor, accuracy: Tensor) -> Tensor:
        """Put back the last good state of hosts that failed, keep that of the others; the accuracy that counts."""
        hosts, kept = self.hosts, self.snapshot
        if bool(stopped.any()):
            hosts.trunk = torch.where(stopped[:, None], kept.trunk, hosts.trunk)
            hosts.seeds = torch.where(stopped[:, None, None], kept.seeds, hosts.seeds)
            self.slots = mixed_rows(stopped, kept.slots, self.slots)
            accuracy = torch.where(stopped, kept.accuracy, accuracy)
        due = ~stopped & (self.history.epoch % SNAPSHOT_EVERY == 0)
        self.snapshot = kept.take(due, hosts.trunk, hosts.seeds, accuracy, replace(self.slots))
        return accuracy

    def _reward(
        self,
        applied: Applied,
        last: Tensor,
        accuracy: Tensor,
        before: Tensor,
        ended: Tensor,
        stopped: Tensor,
        credit: Tensor,
    ) -> dict[str, Tensor]:
        """The reward [host] and its parts."""
        history = self.history
        paid = rent(self.slots, self.horizon, self.price)
        cost = ACTION_COST * (applied.ops > 0)
        history.rent, history.costs = history.rent + paid, history.costs + cost
        parts = {
            "progress": accuracy - last,
            "rent": paid,
            "cost": cost,
            "penalty": PENALTY * stopped,
            "shaping": shaping(before, potential(self.slots), ended, self.discount),
            "hindsight": credit.sum(dim=1),
        }
        dense = parts["progress"] - paid - cost - parts["penalty"]
        if self.mode == "sparse":
            whole = accuracy - history.first_accuracy - history.rent - history.costs - parts["penalty"]
            reward = torch.where(ended, whole, 0.0)
        else:
            reward = dense + (parts["shaping"] + parts["hindsight"] if self.mode == "shaped" else 0.0)
        return {"reward": reward, **parts}

    def _info(
        self, parts: dict[str, Tensor], subsets: Tensor, accuracy: Tensor, ended: Tensor, stopped: Tensor
    ) -> dict[str, Any]:
        parameters = parameters_of(self.device)[self.slots.blueprint].sum(dim=1)
        info: dict[str, Any] = {
            "metrics": {name: self._out(value) for name, value in parts.items() if name != "reward"}
            | {"accuracy": self._out(accuracy), "parameters": self._out(parameters.float())},
            "contribution": self._out(self.slots.contribution),
            "shapley": self._out(shapley(subsets)),
            "subsets": self._out(subsets),
        }
        if self._twin is not None:
            info["twin_accuracy"] = self._out(self._twin_accuracy())
        if bool(ended.any()):
            info["final"] = self.present(only=ended)[0]
            info["episode"] = {
                name: self._out(value[ended]) for name, value in self._summary(accuracy, stopped).items()
            }
        return info

    def _summary(self, accuracy: Tensor, stopped: Tensor) -> dict[str, Tensor]:
        """What the world reports of ended episodes, [host] each."""
        history, slots = self.history, self.slots
        sizes = parameters_of(self.device)[slots.blueprint]
        told = {
            "validation_accuracy": accuracy,
            "rent": history.rent,
            "costs": history.costs,
            "parameters": (sizes * (slots.alpha > 0)).sum(dim=1),
            "fossilised": slots.is_in(SeedStage.FOSSILIZED).sum(dim=1),
            "waits": history.waits,
            "stopped": stopped,
            "penalty": PENALTY * stopped,
            "epochs": history.epoch,
        }
        if self.held_out:
            told["test_accuracy"] = self._validate(self._look(), self._material.test)[2]
        return told

    @torch.no_grad()
    def _twin_accuracy(self) -> Tensor:
        assert self._twin is not None
        split = self._material.val
        return graded(ablations(self._twin.trunk, split.images, []), split.labels[self.hosts.tasks])[2]

    # beginnings

    def _fresh(self) -> tuple[HostRows, Slots, History, Snapshot]:
        stream = self._streams["hosts"]
        trunk = fresh_trunk(self.count, stream)
        tasks = torch.randint(self._material.tasks, (self.count,), generator=stream, device=self.device)
        hosts, slots = HostRows.of(trunk, tasks), Slots.dormant(self.count, self.device)
        history = History.empty(self.count, self.device)
        with torch.no_grad():
            split = self._material.val
            _, loss, accuracy = graded(ablations(trunk, split.images, []), split.labels[tasks])
        history.losses, history.accuracies = loss[:, None].repeat(1, WINDOW), accuracy[:, None].repeat(1, WINDOW)
        history.train_loss, history.train_accuracy = loss, accuracy
        history.first_accuracy = history.best_accuracy = accuracy
        return hosts, slots, history, Snapshot(trunk, hosts.seeds, accuracy, slots)

    def _begin_again(self, ended: Tensor) -> None:
        """New episodes for the hosts that ended."""
        if not bool(ended.any()):
            return
        hosts, slots, history, snapshot = self._fresh()
        if self._twin is not None:
            self._twin = mixed_rows(ended, HostRows.of(hosts.trunk.clone(), hosts.tasks), self._twin)
        self.hosts, self.slots = mixed_rows(ended, hosts, self.hosts), mixed_rows(ended, slots, self.slots)
        self.history = mixed_rows(ended, history, self.history)
        self.snapshot = self.snapshot.take(ended, snapshot.trunk, snapshot.seeds, snapshot.accuracy, slots)

    def present(self, only: Tensor | None = None) -> tuple[Observations, Mapping[str, Any]]:
        """What a policy sees now, and the masks; `only` [host]: the observations of some hosts, without masks."""
        features = observed(self.history, self.slots, self.horizon, self.budget)
        if only is not None:
            return Observations(self._out(features[only]), self._out(self.slots.blueprint[only])), {}
        used = parameters_of(self.device)[self.slots.blueprint].sum(dim=1)
        self.masks = allowed(self.slots, self.budget - used)
        masks = {name: self._out(mask) for name, mask in self.masks.items()}
        return Observations(self._out(features), self._out(self.slots.blueprint)), masks

    def _out(self, value: Tensor) -> Any:
        """An array of the world's own kind: numpy's on the CPU, torch's on a device."""
        return value.numpy() if self.device.type == "cpu" else value


_SNAPSHOT = ("trunk", "seeds", "accuracy")

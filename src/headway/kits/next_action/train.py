"""Trains the ranker's transformer: what the linear model leaves over, robustly, and the order within a state.

    trained = train(rows, tune, shape, settings, progress, folder)
    trained.tensors, trained.error

The loss of a row is Huber's of its reward; of two actions in one state, the logistic loss of their order, weighted by
how far their rewards lie apart; the spread follows the absolute error. The network starts at zero, that is, at the
linear model, and the epoch with the least error on the tuning rows is kept. Random numbers depend on seed and epoch
alone, and every epoch is saved into `folder`: an interrupted training that is resumed gives the same tensors.

Not covered: bit-equal tensors between devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from headway.files import read_regular, write_whole
from headway.kits.next_action.layout import ActionInputs, Singles, StateInputs
from headway.kits.next_action.network import RankerNetwork
from headway.kits.next_action.shapes import RankerShape
from headway.nouns import Floats, Progress, errors
from headway.observe import UNREADABLE

_PATIENCE = 3  # epochs without a better one
_TEXT_NOISE = 0.5  # of a standard deviation of a text's entries: words that were not seen are somewhere near
_WARM_UP = 40  # updates
_SPREAD = 0.2  # the weight of the spread's loss
_RANGE = 4.0  # of the logarithm of the spread


@dataclass(frozen=True, slots=True)
class NetworkRows:
    """Rows by state. Rewards and the linear predictions are in units of the reward's deviation."""

    states: StateInputs
    owner: NDArray[np.int64]  # [row] → state
    actions: ActionInputs
    linear: Floats
    reward: Floats
    weight: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """The learner's knobs that training reads."""

    epochs: int
    batch: int
    rate: float
    decay: float
    dropout: float
    pairs: float
    device: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedNetwork:
    """The weights of the best epoch; `error` on the tuning rows, in units of the reward's variance."""

    tensors: dict[str, Singles]
    error: float
    epoch: int


def device_named(name: str) -> str:
    """ "auto" is the fastest device of this machine; one that it does not have is refused."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if not there.get(name, False):
        raise errors.InvalidInput(
            f"There is no device {name!r} here.",
            code="bad_device",
            hint="Available: auto, " + ", ".join(device for device, present in there.items() if present) + ".",
        )
    return name


def train(
    rows: NetworkRows,
    tune: NetworkRows,
    shape: RankerShape,
    settings: TrainSettings,
    progress: Progress | None = None,
    snapshot: Path | None = None,
) -> TrainedNetwork:
    """The network of the best epoch. `snapshot`: where every epoch is saved, and what an earlier run left there."""
    from safetensors import SafetensorError

    run = _TrainingRun(rows, tune, shape, settings)
    if snapshot is not None and snapshot.exists():
        try:
            run.load(snapshot)
        except (OSError, RuntimeError, SafetensorError, *UNREADABLE):  # damaged: it costs time, nothing else
            run = _TrainingRun(rows, tune, shape, settings)
    while run.epoch < settings.epochs and run.late < _PATIENCE:
        if progress is not None:
            progress(f"epochs of {shape.hidden} wide", run.epoch, settings.epochs)
        run.next_epoch()
        if snapshot is not None:
            run.save(snapshot)
    if progress is not None:
        progress(f"epochs of {shape.hidden} wide", settings.epochs, settings.epochs)
    return TrainedNetwork(tensors=run.best, error=run.error, epoch=run.best_epoch)


def outputs_of(network: RankerNetwork, rows: NetworkRows, device: str) -> NDArray[np.float32]:
    """[row, 2]: correction and spread, without dropout."""
    network.eval()
    with torch.no_grad():
        states = tuple(_on(part, device) for part in (rows.states.text, rows.states.numbers, rows.states.steps))
        actions = (_on(rows.actions.text, device), _on(rows.actions.traits, device))
        mean, spread = network(states, actions, torch.as_tensor(rows.owner, device=device))
    outputs: NDArray[np.float32] = torch.stack([mean, spread], dim=1).cpu().numpy()
    return outputs


class _TrainingRun:
    """One training, between two epochs."""

    def __init__(self, rows: NetworkRows, tune: NetworkRows, shape: RankerShape, settings: TrainSettings) -> None:
        self._rows, self._tune, self._settings = rows, tune, settings
        self._device = settings.device
        self._network = RankerNetwork(shape, seed=settings.seed, dropout=settings.dropout).to(self._device)
        parameters = list(self._network.weights.values())
        weights, others = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim == 1]
        groups = [{"params": weights, "weight_decay": settings.decay}, {"params": others, "weight_decay": 0.0}]
        self._optimiser = torch.optim.AdamW(groups, lr=settings.rate)
        order = np.argsort(rows.owner, kind="stable")
        self._by_state = np.split(order, np.flatnonzero(np.diff(rows.owner[order])) + 1)
        self.epoch, self.late, self.best_epoch, self._updates = 0, 0, 0, 0
        self.best, self.error = self._network.tensors(), self._tune_error()

    def next_epoch(self) -> None:
        settings = self._settings
        rng = np.random.default_rng([settings.seed, self.epoch, 0x7A])
        torch.manual_seed(int(rng.integers(2**62)))
        self._network.train()
        order = rng.permutation(len(self._by_state))
        total = settings.epochs * -(-len(order) // settings.batch)
        for start in range(0, len(order), settings.batch):
            places = np.concatenate([self._by_state[state] for state in order[start : start + settings.batch]])
            self._updates += 1
            rate = settings.rate * min(1.0, self._updates / _WARM_UP)
            rate *= 0.5 + 0.5 * float(np.cos(np.pi * min(1.0, self._updates / total)))
            for group in self._optimiser.param_groups:
                group["lr"] = rate
            self._update(places)
        self.epoch += 1
        error = self._tune_error()
        if error < self.error:
            self.error, self.best, self.best_epoch, self.late = error, self._network.tensors(), self.epoch, 0
        else:
            self.late += 1

    def _update(self, places: NDArray[np.int64]) -> None:
        rows, device = self._rows, self._device
        kept, owner = np.unique(rows.owner[places], return_inverse=True)
        text = _noisy(_on(rows.states.text[kept], device))
        states = (text, _on(rows.states.numbers[kept], device), _on(rows.states.steps[kept], device))
        actions = (_noisy(_on(rows.actions.text[places], device)), _on(rows.actions.traits[places], device))
        correction, spread = self._network(states, actions, torch.as_tensor(owner, device=device))
        reward, weight = _on(rows.reward[places], device), _on(rows.weight[places], device)
        predicted = correction + _on(rows.linear[places], device)
        loss = _loss(predicted, spread, reward, weight, torch.as_tensor(owner, device=device), self._settings.pairs)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(list(self._network.weights.values()), 1.0)
        self._optimiser.step()

    def _tune_error(self) -> float:
        tune = self._tune
        if not len(tune.reward):
            return float("inf")
        predicted = tune.linear + outputs_of(self._network, tune, self._device)[:, 0]
        return float(np.average((predicted - tune.reward) ** 2, weights=tune.weight))

    # -- snapshots

    def save(self, path: Path) -> None:
        from safetensors.numpy import save

        tensors: dict[str, Any] = {f"now.{name}": value for name, value in self._network.tensors().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for name, weight in self._network.weights.items():
            state = self._optimiser.state[weight]
            tensors[f"mean.{name}"] = state["exp_avg"].cpu().numpy()
            tensors[f"square.{name}"] = state["exp_avg_sq"].cpu().numpy()
        numbers = [self.epoch, self.late, self.best_epoch, self._updates, self.error]
        tensors["numbers"] = np.array(numbers, dtype=np.float64)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, bytes(save({name: np.ascontiguousarray(value) for name, value in tensors.items()})))

    def load(self, path: Path) -> None:
        from safetensors.numpy import load

        tensors: Mapping[str, Any] = load(read_regular(path))
        self._network.load({name: tensors[f"now.{name}"] for name in self._network.weights})
        self.best = {name: tensors[f"best.{name}"] for name in self._network.weights}
        *whole, self.error = tensors["numbers"].tolist()
        self.epoch, self.late, self.best_epoch, self._updates = map(int, whole)
        for name, weight in self._network.weights.items():
            self._optimiser.state[weight] = {
                "step": torch.tensor(float(self._updates)),
                "exp_avg": torch.as_tensor(tensors[f"mean.{name}"], device=self._device),
                "exp_avg_sq": torch.as_tensor(tensors[f"square.{name}"], device=self._device),
            }


def _loss(
    predicted: torch.Tensor,
    spread: torch.Tensor,
    reward: torch.Tensor,
    weight: torch.Tensor,
    owner: torch.Tensor,
    pairs: float,
) -> torch.Tensor:
    whole = weight.sum().clamp(min=1e-9)
    robust = (weight * functional.smooth_l1_loss(predicted, reward, reduction="none")).sum() / whole
    log_spread = spread.clamp(-_RANGE, _RANGE)
    miss = (predicted.detach() - reward).abs()
    spreads = (weight * (log_spread + miss * torch.exp(-log_spread))).sum() / whole
    loss = robust + _SPREAD * spreads
    together = (owner[:, None] == owner) & torch.ones(len(owner), len(owner), device=owner.device).triu(1).bool()
    apart = (reward[:, None] - reward)[together]
    if pairs and len(apart):
        lead = (predicted[:, None] - predicted)[together]
        both = (weight[:, None] * weight)[together] * apart.abs()
        order = (both * functional.softplus(-torch.sign(apart) * lead)).sum() / both.sum().clamp(min=1e-9)
        loss = loss + pairs * order
    return loss


def _noisy(text: torch.Tensor) -> torch.Tensor:
    return text + _TEXT_NOISE * torch.randn_like(text) * (text.abs().sum(dim=1, keepdim=True) > 0)


def _on(values: Any, device: str) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float32), device=device)

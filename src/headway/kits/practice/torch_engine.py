"""The actor-critic's engine in torch: the same network and objective as `engine.py`, on a GPU or a CPU.

    engine = TorchEngine(actions, shape, device="cuda", seed=7)

Worth it for wide networks and large minibatches; at 64 units numpy is several times faster. float32; the same seed
gives the same run on the same device and versions. Needs the extra `learn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice.engine import LOG_STD_BOUNDS
from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import EPSILON, Array, Network, Shape
from headway.kits.practice.objective import Minibatch, Objective, Stats
from headway.nouns import errors

try:
    import torch
    from torch import Tensor

    from headway.kits.practice import ppo
except ModuleNotFoundError as error:
    raise errors.MissingExtra("Learning on this device", "torch", "learn") from error


DEVICES = ("cpu", "cuda", "mps")


def available(device: str) -> str:
    """The device, if this machine has it; else an error."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device, False):
        raise errors.InvalidInput(
            f"There is no device {device!r} here.",
            code="bad_device",
            hint="Available: " + ", ".join(name for name, present in there.items() if present) + ".",
        )
    return device


class TorchEngine:
    """Parameters are leaf tensors named as in a bundle; gradients come from autograd."""

    def __init__(
        self,
        actions: Actions,
        shape: Shape,
        *,
        device: str = "cpu",
        seed: int = 0,
        rate: float = 3e-4,
        most_norm: float | None = 0.5,
        decay: float = 0.0,
        start: Any = "orthogonal",
        dtype: Any = np.float32,
    ) -> None:
        self._actions, self.shape, self.device, self.most_norm = actions, shape, available(device), most_norm
        self.dtype = torch.float64 if np.dtype(dtype) == np.float64 else torch.float32
        first = Network(shape, seed=seed, start=start, gains=(0.01, 1.0), dtype=dtype)
        self.parameters: dict[str, Tensor] = {
            name: self._tensor(tensor).clone().requires_grad_() for name, tensor in first.tensors().items()
        }
        weights = [parameter for parameter in self.parameters.values() if parameter.ndim == 2]
        others = [parameter for parameter in self.parameters.values() if parameter.ndim != 2]
        groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=rate, eps=1e-5)
        self.steps = 0

    def _tensor(self, values: Any) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(values), dtype=self.dtype, device=self.device)

    def _run(self, x: Tensor, tower: str) -> Tensor:
        depth = len(self.shape.hidden)
        for place in range(depth):
            x = torch.nn.functional.linear(
                x, self.parameters[f"{tower}.w{place}"], self.parameters[f"{tower}.b{place}"]
            )
            if self.shape.norm:
                gain, shift = self.parameters[f"{tower}.g{place}"], self.parameters[f"{tower}.s{place}"]
                x = torch.nn.functional.layer_norm(x, (x.shape[-1],), gain, shift, EPSILON)
            x = torch.tanh(x) if self.shape.activation == "tanh" else torch.relu(x)
        return torch.nn.functional.linear(x, self.parameters[f"{tower}.w{depth}"], self.parameters[f"{tower}.b{depth}"])

    def _free(self) -> Tensor:
        return self.parameters["free"] if self.shape.free else torch.zeros(0, dtype=self.dtype, device=self.device)

    def _logs(self, outputs: Tensor, allowed: NDArray[np.bool_] | None) -> list[Tensor]:
        may = None if allowed is None else torch.as_tensor(allowed, device=self.device)
        return [
            ppo.categorical(outputs[:, part], None if may is None else may[:, part]) for part in self._actions.parts
        ]

    def _new(self, outputs: Tensor, logs: list[Tensor], action: NDArray[Any]) -> Tensor:
        if self._actions.kind == "gaussian":
            return ppo.gaussian(outputs, self._free(), self._tensor(action))
        chosen = torch.as_tensor(action, dtype=torch.int64, device=self.device)
        parts = [log.gather(1, chosen[:, head, None])[:, 0] for head, log in enumerate(logs)]
        return torch.stack(parts).sum(dim=0)

    # -- the engine interface

    @property
    def actions(self) -> Actions:
        return self._actions

    @property
    def free(self) -> Array:
        return self._numpy(self._free())

    def _numpy(self, values: Tensor) -> Array:
        return np.asarray(values.detach().cpu().numpy())

    @torch.no_grad()
    def outputs(self, x: Array) -> Array:
        return self._numpy(self._run(self._tensor(x), "policy"))

    @torch.no_grad()
    def values(self, x: Array) -> Array:
        return self._numpy(self._run(self._tensor(x), "value")[:, 0])

    @torch.no_grad()
    def log_probabilities(self, x: Array, action: NDArray[Any], allowed: NDArray[np.bool_] | None) -> Array:
        outputs = self._run(self._tensor(x), "policy")
        logs = [] if self._actions.kind == "gaussian" else self._logs(outputs, allowed)
        return self._numpy(self._new(outputs, logs, action))

    def loss(self, batch: Minibatch, objective: Objective) -> tuple[Tensor, Stats, Tensor]:
        """(loss, statistics, ratios)."""
        x, old, advantage = self._tensor(batch.x), self._tensor(batch.old), self._tensor(batch.advantage)
        mask = None if batch.weight is None else self._tensor(batch.weight)
        outputs, values = self._run(x, "policy"), self._run(x, "value")[:, 0]
        gaussian = self._actions.kind == "gaussian"
        logs = [] if gaussian else self._logs(outputs, batch.allowed)
        new = self._new(outputs, logs, batch.action)
        policy = ppo.surrogate(new, old, advantage, mask, clip=objective.clip, dual_clip=objective.dual_clip)
        returns, before = self._tensor(batch.returns), self._tensor(batch.values)
        critic = ppo.value_loss(values, returns, before, mask, clip=objective.value_clip)
        if gaussian:
            weights = self._tensor([objective.entropy_of(place) for place in range(self._actions.outputs)])
            entropy_ = self._free() + 0.5 * (1.0 + np.log(2.0 * np.pi))
            bonus, entropy = (weights * entropy_).sum(), entropy_.sum()
        else:
            bonus = ppo.entropy_bonus(logs, [objective.entropy_of(head) for head in range(len(logs))], mask)
            entropy = ppo.entropy_bonus(logs, [1.0] * len(logs), mask)
        with torch.no_grad():
            ratio = torch.exp(new - old)
            parts = (policy, critic, entropy, ppo.divergence(new, old, mask),
                     ppo.clip_fraction(new, old, mask, clip=objective.clip))  # fmt: skip
            stats = Stats(*torch.stack([part.detach() for part in parts]).cpu().tolist())
        return policy + objective.value * critic - bonus, stats, ratio

    def step(self, batch: Minibatch, objective: Objective) -> tuple[Stats, Array]:
        self.optimiser.zero_grad(set_to_none=True)
        loss, stats, ratio = self.loss(batch, objective)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        most = self.most_norm if self.most_norm is not None else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), most)
        if bool(torch.isfinite(norm)):
            self.optimiser.step()
            self.steps += 1
            if self.shape.free:
                with torch.no_grad():
                    self.parameters["free"].clamp_(*LOG_STD_BOUNDS)
        return stats, self._numpy(ratio)

    def set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate

    def tensors(self) -> dict[str, NDArray[np.float64]]:
        return {name: self._numpy(tensor).astype(np.float64) for name, tensor in self.parameters.items()}

    def state(self) -> tuple[dict[str, Array], int]:
        arrays: dict[str, Array] = {}
        for name, slot in self.parameters.items():
            mine = self.optimiser.state.get(slot, {})
            if mine:
                arrays[f"adam.mean.{name}"] = self._numpy(mine["exp_avg"])
                arrays[f"adam.square.{name}"] = self._numpy(mine["exp_avg_sq"])
        return arrays, self.steps

    def load(self, tensors: Mapping[str, Any], steps: int) -> None:
        self.steps = steps
        with torch.no_grad():
            for name, slot in self.parameters.items():
                slot.copy_(self._tensor(tensors[name]))
                if f"adam.mean.{name}" in tensors:
                    self.optimiser.state[slot] = {
                        "step": torch.tensor(float(steps)),
                        "exp_avg": self._tensor(tensors[f"adam.mean.{name}"]),
                        "exp_avg_sq": self._tensor(tensors[f"adam.square.{name}"]),
                    }

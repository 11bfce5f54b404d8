"""The folder of an unfinished run: run.json, weights and optimiser, metrics.jsonl. It may be deleted at any time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headway.files import read_regular
from headway.kits.reply.learn.controller import KlController
from headway.observe.damage import UNREADABLE
from headway.observe.run_log import RunLog, write_snapshot

if TYPE_CHECKING:
    from headway.kits.reply.learn.objective import TrainingState

__all__ = ["METRICS", "RunSnapshot"]

METRICS, _TOLD = "metrics.jsonl", "run.json"


class RunSnapshot:
    """Saves and restores a trainer. A snapshot of another run (other ratings, knobs, seed or base) is not used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._identity = ""

    @property
    def metrics(self) -> Path:
        return self.folder / METRICS

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, trainer: TrainingState) -> None:
        from safetensors.torch import save

        tensors, told = trainer.objective.state()
        arrays = {f"objective.{name}": value.contiguous() for name, value in tensors.items()}
        for name, module in trainer.objective.modules().items():
            arrays |= {f"module.{name}.{key}": value for key, value in module.state_dict().items()}
        for place, matrix in enumerate(trainer.tuned.adapter.parameters()):
            arrays[f"adapter.{place}"] = matrix.detach()
        numbers: dict[str, float] = {}
        for place, entry in trainer.optimizer.state_dict()["state"].items():
            for key, value in entry.items():
                arrays[f"optimizer.{place}.{key}"] = value.detach().clone()
        body = {
            "identity": self._identity_of(trainer), "counts": asdict(trainer.counts),
            "controller": trainer.controller.state(), "objective": told, "numbers": numbers, "last": trainer.last,
        }  # fmt: skip
        weights = save({key: value.cpu().clone() for key, value in arrays.items()})
        write_snapshot(self.folder, f"weights-{trainer.counts.updates}.safetensors", weights, body)

    def restore(self, trainer: TrainingState) -> bool:
        """Continue from the snapshot, if it is of this very run."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            told = json.loads(read_regular(self.folder / _TOLD))
            if told["identity"] != self._identity_of(trainer):
                raise ValueError("of another run")
            arrays = load(read_regular(self.folder / told["weights"]))
        except (OSError, SafetensorError, *UNREADABLE):
            self.metrics.unlink(missing_ok=True)
            return False
        _fill(trainer, arrays)
        trainer.objective.load(_part(arrays, "objective."), told["objective"])
        trainer.controller = KlController.from_state(told["controller"])
        for key, value in told["counts"].items():
            setattr(trainer.counts, key, [tuple(point) for point in value] if key == "curve" else value)
        trainer.last = told["last"]
        RunLog(self.folder).forget_after("update", trainer.counts.updates)
        return True

    def _identity_of(self, trainer: TrainingState) -> str:
        if not self._identity:
            digest = hashlib.sha256()
            told = [trainer.objective.name, trainer.seed, asdict(trainer.knobs), trainer.tuned.base_hash]
            digest.update(json.dumps(told, sort_keys=True, default=str).encode())
            for sample in trainer.samples:
                digest.update(json.dumps(asdict(sample), sort_keys=True).encode())
            for name, value in trainer.tuned.start.items():
                digest.update(name.encode() + value.tobytes())
            self._identity = digest.hexdigest()
        return self._identity


def _fill(trainer: TrainingState, arrays: Mapping[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for place, matrix in enumerate(trainer.tuned.adapter.parameters()):
            matrix.copy_(arrays[f"adapter.{place}"])
    for name, module in trainer.objective.modules().items():
        module.load_state_dict(_part(arrays, f"module.{name}."))
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in _part(arrays, "optimizer.").items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    groups = trainer.optimizer.state_dict()["param_groups"]
    trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _part(arrays: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}

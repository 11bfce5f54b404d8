"""Trains an adapter: updates under a KL budget, in an order that depends on seed and samples alone.

    trainer = Trainer(tuned, samples, Kto(knobs), knobs, seed=0, work=folder)
    trainer.run(progress)              # continues from the folder's snapshot if it is of the same run
    trainer.tensors()                  # the adapter

A run that was killed continues from its last snapshot and ends with the same bits. Metrics: a line per update in
metrics.jsonl, in the form of the other kits: update, steps (replies read), seconds, and the learner's numbers.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.files import read_regular
from headway.kits.reply.knobs import LanguageKnobs
from headway.kits.reply.learn.data import Sample
from headway.kits.reply.learn.losses import anchor_kl
from headway.kits.reply.learn.objective import KlController, TrainingObjective, TrainingState
from headway.kits.reply.learn.scorer import TokenRow
from headway.kits.reply.learn.tuned import TunedModel
from headway.kits.reply.probes import CHECKING
from headway.kits.runs import write_snapshot
from headway.nouns import Progress, errors
from headway.observe import UNREADABLE, RunLog

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
        for place, entry in trainer.optimizer.state_dict()["state"].items():
            for key, value in entry.items():
                arrays[f"optimizer.{place}.{key}"] = value.detach().clone()
        body = {
            "identity": self._identity_of(trainer), "counts": asdict(trainer.counts),
            "controller": trainer.controller.state(), "objective": told, "last": trainer.last,
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


_MOST_NORM = 1.0
_MOST_PULLS = 8
_MOST_WORSE = 0.02  # nats per token on general texts: a perplexity of 1.02 times the base's


class Trainer(TrainingState):
    """One training run of one learner."""

    def __init__(
        self,
        tuned: TunedModel,
        samples: Sequence[Sample],
        objective: TrainingObjective,
        knobs: LanguageKnobs,
        *,
        seed: int,
        work: Path | None = None,
        penalties: Sequence[Any] = (),
    ) -> None:
        super().__init__(tuned, samples, objective, knobs, seed=seed)
        self.penalties = tuple(penalties)  # functions (adapter) → loss, such as EWC
        self._anchors = tuned.anchor_rows()
        self._anchor_logprobs: dict[int, Tensor] = {}
        self._snapshot = None if work is None else RunSnapshot(work)

    # -- the run

    def run(self, progress: Progress | None = None) -> None:
        """Train until the budget, the epochs or the samples end."""
        self._prepare()
        if self._snapshot is not None:
            self._snapshot.restore(self)
        began, total = time.monotonic(), self.total
        while self.counts.epoch < self.knobs.epochs and not self.counts.stopped:
            plan = self.plan(self.counts.epoch)
            if self.counts.place == 0:
                self.objective.begin_epoch(self, self.counts.epoch)
            while self.counts.place < len(plan) and not self.counts.stopped:
                told = self._update(plan[self.counts.place])
                self.counts.place += 1
                if self.counts.place == len(plan):
                    self.counts.epoch, self.counts.place = self.counts.epoch + 1, 0
                self._write({**told, "seconds": round(time.monotonic() - began, 3)})
                if progress is not None:
                    progress(f"learn {self.objective.name}", self.counts.updates, total)
                if self.counts.place == 0:
                    break
        if not self.counts.finished and self.knobs.anchors:
            self._pull_back()
        if self._snapshot is not None:
            self._snapshot.save(self)

    @torch.no_grad()
    def _pull_back(self) -> None:
        """Scale the adapter down until, on texts that no update read, its KL is within the budget, its perplexity near.

        The KL grows with the square of the scale.
        """
        for _ in range(_MOST_PULLS):
            looks = [self._distance_of(row) for row in self.tuned.anchor_rows(CHECKING)]
            kl, worse = (float(np.mean(column)) for column in zip(*looks, strict=True))
            if kl <= self.knobs.budget and worse <= _MOST_WORSE:
                break
            factor = min(0.95, (0.95 * self.knobs.budget / kl) ** 0.5) if kl > self.knobs.budget else 0.85
            for layer in self.tuned.adapter.layers.values():
                layer.lora_B.mul_(factor)
            self.counts.pulled *= factor
        self.last["kl"] = kl
        self.counts.finished = True

    def _distance_of(self, row: TokenRow) -> tuple[float, float]:
        """The KL to the base on one general text, and how much less likely the text became, in nats per token."""
        logits = self.tuned.scorer.logits([row])
        with self.tuned.adapter.off():
            base = self.tuned.scorer.logits([row]).log_softmax(-1)
        words = torch.tensor(row.reply, device=logits.device)[:, None]
        worse = (base.gather(1, words) - logits.log_softmax(-1).gather(1, words)).mean()
        return float(anchor_kl(logits, base)), float(worse)

    def _anchor_base(self, place: int) -> Tensor:
        if place not in self._anchor_logprobs:
            with torch.no_grad(), self.tuned.adapter.off():
                logits = self.tuned.scorer.logits([self._anchors[place]])
                self._anchor_logprobs[place] = logits.log_softmax(-1).half()
        return self._anchor_logprobs[place]

    @property
    def total(self) -> int:
        """Updates of a whole run."""
        return self.knobs.epochs * -(-len(self.samples) // self._size)

    def _prepare(self) -> None:
        self.tuned.network.eval()  # no dropout: the same input gives the same numbers
        with self.tuned.adapter.off():
            self.base = self.scores(self.rows)
        self.objective.prepare(self)
        groups: list[dict[str, Any]] = [{"params": self.tuned.adapter.parameters(), "lr": self.knobs.rate}]
        groups += self.objective.extra_parameters()
        self.optimizer = torch.optim.AdamW(groups, weight_decay=0.0)

    def _update(self, places: Sequence[int]) -> dict[str, Any]:
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        for few in self.passes(places):
            share = len(few) / len(places)
            result = self.objective.loss(self, few, self.counts.epoch)
            (result.loss * share).backward()  # type: ignore[no-untyped-call]
            for name, value in {"loss": float(result.loss.detach()), **result.metrics}.items():
                sums[name] = sums.get(name, 0.0) + share * value
        sums["kl"] = self._anchor()
        for penalty in self.penalties:
            penalty(self.tuned.adapter).backward()
        self._step(sums)
        counts = self.counts
        counts.updates += 1
        counts.rows += len(places)
        counts.tokens += sum(len(self.rows[place]) for place in places)
        counts.curve.append((counts.updates, sums["loss"], sums["kl"]))
        self.controller.after(sums["kl"], counts.updates / self.total)
        if self.controller.spent:
            counts.stopped = "the KL budget is used up"
        self.last = sums
        return {"update": counts.updates, "steps": counts.rows, "tokens": counts.tokens, "epoch": counts.epoch, **sums}

    def _anchor(self) -> float:
        """Adds the gradient of the KL to the base on some general texts; that KL."""
        count = min(self.knobs.anchors, len(self._anchors))
        if not count:
            return 0.0
        first = self.counts.updates * count
        places = [(first + step) % len(self._anchors) for step in range(count)]
        logits = self.tuned.scorer.logits([self._anchors[place] for place in places])
        kl = anchor_kl(logits, torch.cat([self._anchor_base(place) for place in places]).float())
        if self.knobs.anchor and kl.requires_grad:
            (self.knobs.anchor * kl).backward()  # type: ignore[no-untyped-call]
        return float(kl.detach())

    def _step(self, sums: dict[str, float]) -> None:
        parameters = self.tuned.adapter.parameters()
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, _MOST_NORM))
        if not np.isfinite(norm) or not np.isfinite(sums["loss"]):
            raise errors.Unavailable(
                f"Training diverged at update {self.counts.updates + 1}: the loss or its gradient is not finite.",
                code="training_diverged",
                hint="Lower the learning rate (--set rate=1e-5), or look at the ratings of the last replies.",
            )
        rate = self.knobs.rate * self.controller.factor
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        sums |= {"gradient_norm": norm, "rate": rate}

    def tensors(self) -> Mapping[str, Any]:
        return self.tuned.adapter.tensors()

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._snapshot is not None:
            self._snapshot.append(line)
            if self.counts.updates % self.knobs.checkpoint == 0:
                self._snapshot.save(self)

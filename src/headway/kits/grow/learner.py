"""Learns a recurrent policy in a world, with an exact snapshot and metrics.

    trained = practise(project, "scaffold", steps=500_000, seed=7)     # headway learn --world … --family recurrent
    learned(training)                                                  # what `promote` stores

A snapshot is `.headway/work/<world>-<seed>-recurrent/`: run.json, weights, and metrics.jsonl with a line per update. It
is not a policy: it cannot be served, and it may be deleted at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.files import read_regular
from headway.kits.grow.knobs import RecurrentKnobs, knobs_from, preset_knobs
from headway.kits.practice import (
    ENVIRONMENTS,
    Practised,
    TrainedPolicy,
    copies,
    fresh_settings,
    identify,
    run_about,
    slug,
)
from headway.kits.runs import drop_snapshot, opened_snapshot, write_snapshot
from headway.nouns import Crew, Encoder, Experience, Learned, Progress, errors
from headway.observe import RunLog

if TYPE_CHECKING:
    from headway.kits.grow.training import Training
    from headway.kits.grow.worlds import FactoredWorld
    from headway.project import Project


_EVERY_S = 60.0


class RecurrentLearner:
    """The learner of the family `recurrent` as the core asks for it; it learns in a world only."""

    family = "recurrent"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self,
        experience: Experience,  # noqa: ARG002 — the interface of every learner
        knobs: Mapping[str, Any],
        seed: int,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
    ) -> Learned:
        knobs_from(knobs)
        raise errors.InvalidInput(
            "The family 'recurrent' does not learn from logged decisions.",
            code="needs_world",
            hint="Practise in a world: headway learn TASK --world NAME --family recurrent.",
        )


def practise(
    project: Project,
    world: str,
    *,
    task: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    target: float | None = None,
    resume: bool = False,
    settings: Mapping[str, Any] | None = None,
    crew: Crew | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> TrainedPolicy:
    """Practise in a world. `settings` are the world's own, `given` the learner's knobs."""
    from headway.kits.grow.training import Training
    from headway.kits.practice import one_thread, torch_threads

    if task is not None:
        project.settings.task(task)  # an unknown task fails before anything is learned
    if crew is not None:
        raise errors.InvalidInput(
            "With the family 'recurrent' all copies of a world act in this process.",
            code="nothing_named",
            hint="Omit --workers, or use it with --seeds.",
        )
    knobs = knobs_from(given, preset_knobs(world))
    if steps is not None:
        knobs = replace(knobs, steps=steps)
    if target is not None:
        knobs = replace(knobs, target=None if math.isnan(target) else target)
    make = world_maker(project, world, settings or {})
    folder = RunFolder(project.home / "work" / f"{slug(world)}-{seed}-recurrent", world, settings or {})
    with one_thread(), torch_threads(knobs.width):
        training = Training(make, knobs, seed=seed, device=device)
        try:
            began = folder.load(training) if resume else folder.clear()
            folder.log.begin(run_about(world, task=task, family="recurrent", seed=seed), resumed=resume)
            folder.run(training, progress)
            folder.log.end()
            mean = training.evaluate(knobs.confirm, seed + 7_919)
            result = learned(training, mean)
        finally:
            folder.log.interrupt()  # unless it ended
            training.close()
    counts = training.counts
    return TrainedPolicy(
        learned=replace(result, trained_on={**result.trained_on, "device": device}),
        kind="factored",
        encoder="",
        fresh={**(settings or {}), **fresh_settings(project.catalogue, world)},
        about=Practised(
            policy="", world=world, task=task or slug(world), steps=counts.steps, seed=seed, device=device,
            reached=counts.reached, target=knobs.target, mean_return=mean, episodes=knobs.confirm,
            curve=tuple((point.steps, point.mean) for point in counts.curve), resumed_from=began,
        ),
        run=folder.folder.name,
    )  # fmt: skip


def world_maker(project: Project, world: str, settings: Mapping[str, Any]) -> Callable[[int], FactoredWorld]:
    """A function that makes copies of a world: a factored one as it is, any other through Gymnasium's interface."""
    ours = world in project.catalogue.all("worlds") and world not in ENVIRONMENTS
    if not ours:
        identify(world, project.folder)

    def make(count: int) -> FactoredWorld:
        native = {} if ours else {"native": False}
        made: Any = copies(project.catalogue, world, count=count, **native, **settings)
        if hasattr(made, "space"):
            factored: FactoredWorld = made
            return factored
        from headway.kits.grow.gymnasium_world import GymnasiumWorld

        return GymnasiumWorld(made)

    return make


practise.worlds = world_maker  # type: ignore[attr-defined]  # how a proof makes the world again


def learned(training: Training, mean_return: float | None = None) -> Learned:
    """The form that `promote` stores."""
    counts = training.counts
    metrics = {"steps": float(counts.steps), "parameters": float(training.shape.parameters)}
    if mean_return is not None:
        metrics["mean_return"] = mean_return
    if training.agreement is not None:
        metrics["imitation_agreement"] = training.agreement
    if counts.returns:
        metrics["mean_training_return"] = float(np.mean(counts.returns[-100:]))
    metrics |= training.metrics
    return Learned(
        family="recurrent",
        tensors=training.network.tensors(),
        knobs=_stored(training.knobs),
        metrics=metrics,
        baselines={},
        trained_on={"steps": counts.steps, "updates": counts.updates},
        extra={"shape": training.shape.to_json()},
    )


def _stored(knobs: RecurrentKnobs) -> dict[str, Any]:
    return {**asdict(knobs), "entropy_heads": dict(knobs.entropy_heads)}


class RunFolder:
    """The folder of a run: its snapshot and its metrics."""

    def __init__(self, folder: Path, world: str, settings: Mapping[str, Any] | None = None) -> None:
        self.folder, self.world, self.settings = folder, world, dict(settings or {})
        self.log = RunLog(folder)
        self._saved, self._began = -math.inf, time.monotonic()  # the first update is saved

    def clear(self) -> int:
        """Start anew; 0, the steps that were done before."""
        drop_snapshot(self.folder)
        return 0

    def run(self, training: Training, progress: Progress | None = None) -> None:
        """Practise, and write a snapshot however that ends; within an update the last one stays."""
        self._began = time.monotonic()
        try:
            training.run(progress=progress, watch=self.watch, detailed=True)
        finally:
            if training.whole:
                self.save(training)

    def watch(self, training: Training) -> None:
        from headway.kits.grow.metrics import update_metrics

        assert training.last is not None, "called after an update"
        counts = training.counts
        line = {
            "update": counts.updates, "steps": counts.steps, "seconds": round(time.monotonic() - self._began, 3),
            **update_metrics(training.shape.space, *training.last),
        }  # fmt: skip
        if counts.curve and counts.curve[-1].steps == counts.steps:
            line["evaluation"] = counts.curve[-1].mean
        if time.monotonic() - self._saved >= _EVERY_S:
            self.save(training)
        self.log.add(line)

    def save(self, training: Training) -> None:
        """Write the snapshot of the last finished update."""
        from safetensors.numpy import save

        if not training.counts.updates:
            return
        arrays, told = training.state()
        body = {**told, "world": self.world, "seed": training.seed, "device": training.device,
                "settings": self.settings, "knobs": _stored(training.knobs)}  # fmt: skip
        weights = bytes(save({key: np.ascontiguousarray(one) for key, one in arrays.items()}))
        write_snapshot(self.folder, f"weights-{told['steps']}.safetensors", weights, body)
        self._saved = time.monotonic()

    def load(self, training: Training) -> int:
        """Continue from the snapshot; the steps that were done before."""
        from safetensors.numpy import load

        run = f"{self.world!r} with seed {training.seed} and the family 'recurrent'"
        with opened_snapshot(self.folder, run) as told:
            self._check(training, told)
            training.load(load(read_regular(self.folder / told["weights"])), told)
        self.log.forget_after("update", training.counts.updates)
        return training.counts.steps

    def _check(self, training: Training, told: Mapping[str, Any]) -> None:
        """A snapshot continues in the same world, with the same settings and as many copies; other knobs may change."""
        mine = {
            "world": self.world, "device": training.device, "copies": training.knobs.envs, "settings": self.settings,
        }  # fmt: skip
        theirs = {
            "world": told["world"], "device": told["device"], "copies": told["knobs"]["envs"],
            "settings": told.get("settings", self.settings),  # older snapshots do not say
        }  # fmt: skip
        other = [f"{name} {theirs[name]!r} and {mine[name]!r}" for name in mine if mine[name] != theirs[name]]
        if other:
            raise errors.Conflict(
                f"The snapshot in {str(self.folder)!r} and this run differ: {', '.join(other)}.",
                code="other_run",
                hint="Resume it with the same settings, or start again without --resume.",
            )

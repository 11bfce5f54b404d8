"""Practice: learns a candidate in a world instead of from a log, with snapshots.

A snapshot is `.headway/work/<world>-<seed>/`: run.json and weights.safetensors, written atomically, and metrics.jsonl
with a line per update. It is not a policy: it cannot be served, and it may be deleted at any time.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headway.files import read_regular
from headway.kits.practice.engine import NumpyEngine, PolicyEngine
from headway.kits.practice.fit import Practice
from headway.kits.practice.learner import PROMPTS
from headway.kits.runs import drop_snapshot, name_policy, opened_snapshot, write_snapshot
from headway.nouns import Catalogue, Crew, Learned, Progress, errors
from headway.observe import RunLog

if TYPE_CHECKING:
    from headway.kits.practice.acting import ActingGroups
    from headway.kits.practice.environments import Environments
    from headway.kits.practice.fit import Fitted
    from headway.project import Project, Published


_EVERY_S = 20.0
_KINDS = {("categorical", True): "choice", ("categorical", False): "factored"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Practised:
    """The result of practice in a world. `curve` is (steps, mean return of greedy episodes)."""

    policy: str
    world: str
    task: str
    steps: int
    seed: int
    device: str
    reached: bool
    target: float | None
    mean_return: float
    episodes: int
    curve: tuple[tuple[int, float], ...]
    resumed_from: int


def practise(project: Project, world: str, *, progress: Progress | None = None, **how: Any) -> Practised:
    """Learn a candidate in a world: the name of one in the catalogue, or any Gymnasium id; `how`: see `train`."""
    return publish_trained(project, train(project, world, progress=progress, **how))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPolicy:
    """A policy that has practised and is not published yet; plain data that a worker can return."""

    learned: Learned
    kind: str
    encoder: str
    fresh: Mapping[str, Any]
    about: Practised  # without the policy's name
    run: str = ""  # the folder of its metrics


def train(
    project: Project,
    world: str,
    *,
    family: str | None = None,
    **how: Any,
) -> TrainedPolicy:
    """Practise in a world with a family: the world's own (`family` of its function), or else actor_critic."""
    path = project.catalogue.all("worlds").get(world)
    own: str = "actor_critic" if path is None else getattr(project.catalogue.load(path), "family", "actor_critic")
    family = family or own
    if family == "actor_critic" == own:
        return _train(project, world, **how)
    practice = project.catalogue.family(family).practice
    if not practice and family == "actor_critic":
        raise errors.InvalidInput(
            f"The family 'actor_critic' cannot practise in the world {world!r}.",
            code="nothing_named",
            hint=f"Use --family {own}.",
        )
    if not practice:
        able = ["actor_critic", *(name for name, row in project.catalogue.all("families").items() if row.practice)]
        raise errors.InvalidInput(
            f"The family {family!r} does not practise in a world.",
            code="nothing_named",
            hint=f"Use --family with one of these: {', '.join(able)}.",
        )
    trained: TrainedPolicy = project.catalogue.load(practice)(project, world, **how)
    return trained


def _train(
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
    **knobs: Any,
) -> TrainedPolicy:
    """Practise with PPO. `settings` are the world's own, `knobs` the learner's; the workers of a `crew` act."""
    from headway.kits.practice import fit
    from headway.kits.practice.acting import GROUPS, CrewGroups, WorldSource, project_copies
    from headway.kits.practice.environments import ENVIRONMENTS, identify
    from headway.kits.practice.learner import learned

    if task is not None:
        project.settings.task(task)  # an unknown task fails before anything is learned
    ours = world in project.catalogue.all("worlds") and world not in ENVIRONMENTS
    known = world if ours else identify(world, project.folder)

    def make(count: int) -> Environments:
        return project_copies(project, world, settings or {}, count)

    how = _how(known, steps, target, knobs)
    keeper = SnapshotFolder(project.home / "work" / f"{slug(world)}-{seed}", known, seed, how, device)
    keeper.about = run_about(world, task=task, family="actor_critic", seed=seed)
    with nullcontext() if crew is None else crew.held() as held:
        source = WorldSource(project.folder.resolve(), world, settings or {})
        groups = None if held is None else CrewGroups(held, source, count=how.envs, seed=seed)
        fitted = keeper.practise(make, engine_on(device), progress=progress, resume=resume, groups=groups)
    final = fit.judged(make, fitted, episodes=how.episodes if how.target is None else how.confirm, seed=seed + 7_919)
    actions, result = fitted.stage.actions, learned(fitted)
    result = replace(
        result,
        trained_on={**result.trained_on, "device": device, **({} if crew is None else {"groups": GROUPS})},
        metrics={**result.metrics, "mean_return": final.mean},
    )
    return TrainedPolicy(
        learned=result,
        kind=_KINDS.get((actions.kind, len(actions.sizes) == 1), "box"),
        encoder=str(dict(result.extra["features"])["encoder"]),
        fresh={**(settings or {}), **fresh_settings(project.catalogue, known)},
        about=keeper.practised(
            fitted, policy="", task=task or slug(world), mean_return=final.mean, episodes=final.episodes
        ),
        run=keeper.folder.name,
    )


def run_about(world: str, *, task: str | None, family: str, seed: int) -> dict[str, Any]:
    """What a run is about, and the command that continues it."""
    name = task or slug(world)
    command = f"headway learn {name} --world {world} --family {family} --seed {seed} --resume"
    return {"task": name, "world": world, "family": family, "seed": seed, "command": command}


def publish_trained(project: Project, trained: TrainedPolicy) -> Practised:
    """Publish what `train` gave as a candidate."""
    about = trained.about
    published = publish_practised(
        project, trained.learned, task=about.task, kind=trained.kind, encoder=trained.encoder, world=about.world,
        fresh=trained.fresh, seed=about.seed,
    )  # fmt: skip
    if trained.run:
        name_policy(project.home, trained.run, published.ref)
    return replace(about, policy=published.ref, task=published.header.task)


def _how(world: str, steps: int | None, target: float | None, knobs: Mapping[str, Any]) -> Practice:
    """How to practise in a world: its preset, changed by what the caller asks for. A target of NaN means none."""
    from headway.kits.practice import fit

    base = preset(world)
    if target is not None:
        base = replace(base, target=None if math.isnan(target) else target)
    steps = steps or base.steps
    return fit.settings_of(knobs, replace(base, steps=steps, evaluate_every=max(2048, steps // 40)))


def publish_practised(
    project: Project,
    learned: Learned,
    *,
    task: str,
    kind: str,
    encoder: str,
    world: str,
    seed: int,
    fresh: Mapping[str, Any] | None = None,
) -> Published:
    """Publish a practised policy as a candidate; it must be proven before it decides.

    `fresh` are the settings of the world in which a proof plays; None: a proof cannot make this world again.
    """
    told = {"world": world} if fresh is None else {"world": world, "fresh": dict(fresh)}
    return project.publish(
        replace(learned, trained_on={**learned.trained_on, **told}),
        task=task,
        kind=kind,
        encoder=encoder,
        seed=seed,
        packages=("gymnasium",),
        why=f"practised {int(learned.metrics['steps']):,} steps in {world}",
        detail={"world": world},
    )


def fresh_settings(catalogue: Catalogue, world: str) -> Mapping[str, Any]:
    """Settings that a world of the catalogue changes for proofs (`fresh` of its function): held-out prompts, say."""
    path = catalogue.all("worlds").get(world)
    return {} if path is None else getattr(catalogue.load(path), "fresh", {})


def slug(world: str) -> str:
    return re.sub(r"[^a-z0-9_.-]+", "-", world.lower()).strip("-.")[:64] or "world"


class SnapshotFolder:
    """Writes snapshots at intervals, and reads one back."""

    def __init__(self, folder: Path, world: str, seed: int, how: Practice, device: str) -> None:
        self.folder, self.world, self.seed, self.how, self.device = folder, world, seed, how, device
        self.began = 0
        self.about: dict[str, Any] = {"world": world, "seed": seed}
        self._log = RunLog(folder)
        self._last = self._started = time.monotonic()
        self._fitted: Fitted | None = None

    def practise(
        self,
        make: Callable[[int], Environments],
        build: Callable[..., PolicyEngine],
        *,
        progress: Progress | None,
        resume: bool,
        groups: ActingGroups | None = None,
    ) -> Fitted:
        """Practise, and write a snapshot however that ends."""
        from headway.kits.practice import fit
        from headway.kits.practice.threads import one_thread

        self._started = time.monotonic()
        self._log.begin(self.about, resumed=resume)
        if not resume:
            drop_snapshot(self.folder)
        try:
            with one_thread():  # for small networks, more threads only wait for one another
                fitted = fit.practise_in(
                    make,
                    self.how,
                    self.seed,
                    progress=progress,
                    watch=self.watch,
                    build=build,
                    resume=self.load if resume else None,
                    groups=groups,
                )
            self._log.end()
            return fitted
        finally:
            self._log.interrupt()  # unless it ended
            self.save()

    def practised(self, fitted: Fitted, *, policy: str, task: str, mean_return: float, episodes: int) -> Practised:
        """The result of a run of this folder."""
        return Practised(
            policy=policy,
            world=self.world,
            task=task,
            steps=fitted.steps,
            seed=self.seed,
            device=self.device,
            reached=fitted.reached,
            target=self.how.target,
            mean_return=mean_return,
            episodes=episodes,
            curve=tuple((point.steps, point.mean) for point in fitted.curve),
            resumed_from=self.began,
        )

    def watch(self, fitted: Fitted) -> None:
        self._fitted = fitted
        line: dict[str, Any] = {"steps": fitted.steps, "seconds": round(time.monotonic() - self._started, 3)}
        if fitted.last is not None:
            line |= {**fitted.last.stats._asdict(), "passes": fitted.last.passes}
        if fitted.returns:
            latest = fitted.returns[-100:]
            line["mean_return"] = sum(latest) / len(latest)
        if fitted.curve and fitted.curve[-1].steps == fitted.steps:
            line["evaluation"] = fitted.curve[-1].mean
        if time.monotonic() - self._last >= _EVERY_S:
            self.save()
        self._log.add(line)

    def save(self) -> None:
        if self._fitted is None:
            return
        from safetensors.numpy import save

        from headway.kits.practice.fit import snapshot

        self._last = time.monotonic()
        tensors, told = snapshot(self._fitted)
        body = {**told, "world": self.world, "seed": self.seed, "device": self.device, "settings": asdict(self.how)}
        write_snapshot(self.folder, f"weights-{told['steps']}.safetensors", bytes(save(tensors)), body)

    def load(self, fitted: Fitted) -> None:
        from safetensors.numpy import load

        from headway.kits.practice.fit import restore

        with opened_snapshot(self.folder, f"{self.world!r} with seed {self.seed}") as told:
            shape = {name: told["settings"][name] for name in ("hidden", "activation", "norm")}
            mine = {"hidden": list(self.how.hidden), "activation": self.how.activation, "norm": self.how.norm}
            if told["world"] != self.world or told["device"] != self.device or shape != mine:
                raise errors.Conflict(
                    f"The run in {str(self.folder)!r} was of {told['world']!r} on {told['device']!r} with {shape}.",
                    code="other_run",
                    hint="Resume it with the same settings, or start again without --resume.",
                )
            restore(fitted, load(read_regular(self.folder / told["weights"])), told)
        self._log.forget_after("steps", fitted.steps)
        self.began = fitted.steps
        self._fitted = fitted


DEVICES = ("cpu", "cuda", "mps")
PRESETS: Mapping[str, Practice] = MappingProxyType(
    {
        "CartPole-v1": Practice(
            steps=100_000, envs=16, horizon=32, epochs=10, minibatch=128, rate=1e-3, entropy=0.0, target=475.0
        ),
        "Acrobot-v1": Practice(
            steps=200_000, envs=8, horizon=32, epochs=6, minibatch=128, rate=1e-3, lam=0.94, target=-100.0
        ),
        "LunarLander-v3": Practice(
            steps=1_000_000, envs=16, horizon=128, epochs=10, minibatch=256, rate=5e-4, gamma=0.995, lam=0.98,
            target=200.0,
        ),
        "prompts": PROMPTS,
        "sim": Practice(
            steps=600_000, envs=128, horizon=32, epochs=4, minibatch=512, rate=1e-3, schedule="linear", gamma=1.0,
            hidden=(512, 256), activation="relu", norm=True, start="xavier", normalise_observations=False,
            normalise_rewards=False, episodes=500,
        ),
    }
)  # fmt: skip


def preset(world: str) -> Practice:
    """The settings for a world, by its Gymnasium id or our name; the defaults for other worlds."""
    return PRESETS.get(world, Practice())


def engine_on(device: str) -> Callable[..., PolicyEngine]:
    """The constructor of an engine there: numpy on the CPU, torch elsewhere."""
    if device == "cpu":
        return NumpyEngine
    if device not in DEVICES:
        raise errors.InvalidInput(f"There is no device {device!r}.", code="bad_device", hint="cpu, cuda or mps.")
    from headway.kits.practice.torch_engine import TorchEngine, available

    return partial(TorchEngine, device=available(device))

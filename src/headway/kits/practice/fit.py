"""The one training loop of PPO: collect, estimate advantages, pass over the rows, repeat.

    fitted = practise_in(lambda count: environment("cartpole", count=count), Practice(steps=100_000), seed=7)
    update(engine, rows, Practice(), rng)             # the same passes over given rows

Each update passes `epochs` times over the rows in minibatches of `minibatch`; the last one may be smaller, down to a
single row. Before the first pass the log-probabilities of the acting policy are computed in the same minibatches, in
the order of that pass: the same call on the same numbers, so the first ratio of every row is exactly one, bit for bit,
while no weight has changed. (A matrix product may round a row differently in another batch.)

An update stops after a pass whose KL estimate exceeds 1.5 × `target_kl`. The learning rate falls linearly to zero over
`steps` (schedule "linear") or stays. Advantages are standardised over all rows of an update, not per minibatch.

The same world, settings and seed give the same weights, bit for bit. A resumed run continues with the weights, the
optimiser, the statistics and the count of steps, but with new episodes, so it differs from an uninterrupted run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice.acting import ActingGroups
from headway.kits.practice.engine import NumpyEngine, PolicyEngine, shape_of
from headway.kits.practice.environments import Environments
from headway.kits.practice.mlp import Activation, Array
from headway.kits.practice.objective import Minibatch, Objective, Stats
from headway.kits.practice.rollout import Rollout, Stage, evaluate, gae
from headway.nouns import Progress, errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Practice:
    """How to practise. The defaults suit small control problems; `PRESETS` has better settings for some worlds."""

    steps: int = 200_000
    envs: int = 16
    horizon: int = 128
    epochs: int = 10
    minibatch: int = 256
    rate: float = 3e-4
    schedule: Literal["linear", "constant"] = "constant"
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    dual_clip: float | None = None
    value_clip: float | None = None
    value: float = 0.5
    entropy: float | tuple[float, ...] = 0.01
    target_kl: float | None = None
    most_norm: float | None = 0.5
    decay: float = 0.0
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    norm: bool = False
    start: Literal["orthogonal", "xavier"] = "orthogonal"
    normalise_observations: bool = True
    normalise_rewards: bool = True
    target: float | None = None  # stop once this mean return of greedy episodes is reached
    evaluate_every: int = 2048  # steps; 0: never
    episodes: int = 20
    confirm: int = 100  # fresh episodes that must confirm the target

    @property
    def objective(self) -> Objective:
        return Objective(
            clip=self.clip,
            dual_clip=self.dual_clip,
            value_clip=self.value_clip,
            value=self.value,
            entropy=self.entropy,
        )


def settings_of(knobs: Mapping[str, Any], base: Practice | None = None) -> Practice:
    """The settings with these knobs changed; unknown knobs and invalid values are refused."""
    known = {field.name: field for field in fields(Practice)}
    changed: dict[str, Any] = {}
    for name, value in knobs.items():
        if name not in known:
            raise errors.InvalidSettings(
                f"The actor-critic has no knob {name!r}.", code="unknown_key", hint=errors.did_you_mean(name, known)
            )
        changed[name] = tuple(value) if isinstance(value, list | tuple) else value
    try:
        made = replace(base or Practice(), **changed)
        sound = _in_range(made)
    except TypeError:
        sound = False
    if not sound:
        raise errors.InvalidSettings(
            f"The knobs {dict(knobs)!r:.200} are out of range.",
            code="bad_knob",
            hint="Counts are whole and above 0, rates at least 0, gamma and lam at most 1.",
        )
    return made


def _in_range(made: Practice) -> bool:
    numbers = [made.rate, made.gamma, made.lam, made.clip, made.value]
    counts = [made.steps, made.envs, made.horizon, made.epochs, made.minibatch, made.episodes, made.confirm]
    choices = (
        (made.activation, ("tanh", "relu")),
        (made.start, ("orthogonal", "xavier")),
        (made.schedule, ("linear", "constant")),
    )
    return (
        all(np.isfinite(number) and number >= 0 for number in numbers)
        and max(made.gamma, made.lam) <= 1
        and all(isinstance(count, int) and count > 0 for count in (*counts, *made.hidden))
        and all(choice in known for choice, known in choices)
    )


class Rows(NamedTuple):
    """Transitions to pass over, [row, …]. `old`: the acting policy's log-probability; None: the present policy's."""

    x: Array
    action: NDArray[Any]
    advantage: Array
    returns: Array
    values: Array
    old: Array | None = None
    weight: Array | None = None
    allowed: NDArray[np.bool_] | None = None


class Updated(NamedTuple):
    """Statistics of an update: means over the minibatches of its last pass, and the number of passes."""

    stats: Stats
    passes: int
    first_ratios: tuple[float, float]  # least and greatest of the first minibatch


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation."""

    steps: int
    mean: float
    episodes: int


@dataclass(slots=True)
class Fitted:
    """The result of practice."""

    engine: PolicyEngine
    stage: Stage
    settings: Practice
    steps: int = 0
    curve: list[Evaluation] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)  # of the training episodes, with exploration
    last: Updated | None = None
    reached: bool = False


def rows_of(rollout: Rollout, *, gamma: float, lam: float) -> Rows:
    """A rollout as rows, with advantages standardised over those that count."""
    advantage, returns = gae(
        rollout.rewards, rollout.values, rollout.next_values, rollout.terminated, rollout.truncated,
        gamma=gamma, lam=lam, mask=rollout.mask,
    )  # fmt: skip
    keep = rollout.mask.ravel()
    whole = bool(keep.all())

    def flat(array: NDArray[Any], *shape: int) -> NDArray[Any]:
        rows = array.reshape(-1, *shape)
        return rows if whole else rows[keep]

    x, action = rollout.x, rollout.action
    return Rows(
        x=flat(x, x.shape[-1]),
        action=flat(action, action.shape[-1]),
        advantage=standardised(flat(advantage)),
        returns=flat(returns),
        values=flat(rollout.values),
        allowed=None if rollout.allowed is None else flat(rollout.allowed, rollout.allowed.shape[-1]),
    )


def standardised(advantage: Array) -> Array:
    """Mean 0, deviation 1; a single row is unchanged."""
    if len(advantage) < 2:
        return advantage
    centred = advantage - advantage.mean()
    scaled: Array = centred / (centred.std() + 1e-8)
    return scaled.astype(advantage.dtype, copy=False)


def update(engine: PolicyEngine, rows: Rows, settings: Practice, rng: np.random.Generator) -> Updated:
    """Pass over the rows until `epochs` are done or the policy has changed enough."""
    count, size, objective = len(rows.x), settings.minibatch, settings.objective
    if not count:
        raise errors.InvalidInput("There is no row to learn from.", code="nothing_to_learn", hint="Collect some first.")
    stats: list[Stats] = []
    ratios = (1.0, 1.0)
    old = rows.old
    done = 0
    for turn in range(settings.epochs):
        order = rng.permutation(count)
        if old is None:
            old = _acting(engine, rows, order, size)
        stats = []
        for begin, batch in enumerate(_batches(rows, old, order, size)):
            stats_, ratio = engine.step(batch, objective)
            stats.append(stats_)
            if turn == 0 and begin == 0:
                ratios = (float(ratio.min()), float(ratio.max()))
        done = turn + 1
        if settings.target_kl is not None and _mean(stats).kl > 1.5 * settings.target_kl:
            break
    return Updated(_mean(stats), done, ratios)


def _acting(engine: PolicyEngine, rows: Rows, order: NDArray[np.int64], size: int) -> Array:
    """[row]: log-probabilities under the present weights, computed as in the first pass."""
    old: Array = np.empty_like(rows.advantage)
    for begin in range(0, len(order), size):
        mine = order[begin : begin + size]
        old[mine] = engine.log_probabilities(
            rows.x[mine], rows.action[mine], None if rows.allowed is None else rows.allowed[mine]
        )
    return old


def _batches(rows: Rows, old: Array, order: NDArray[np.int64], size: int) -> Iterator[Minibatch]:
    x, action, old = rows.x[order], rows.action[order], old[order]
    advantage, returns, values = rows.advantage[order], rows.returns[order], rows.values[order]
    weight = None if rows.weight is None else rows.weight[order]
    allowed = None if rows.allowed is None else rows.allowed[order]
    for begin in range(0, len(order), size):
        part = slice(begin, begin + size)
        yield Minibatch(
            x[part], action[part], old[part], advantage[part], returns[part], values[part],
            None if weight is None else weight[part], None if allowed is None else allowed[part],
        )  # fmt: skip


def _mean(stats: list[Stats]) -> Stats:
    return Stats(*(float(sum(column) / len(stats)) for column in zip(*stats, strict=True)))


def practise_in(
    make: Callable[[int], Environments],
    settings: Practice,
    seed: int,
    *,
    progress: Progress | None = None,
    watch: Callable[[Fitted], bool | None] | None = None,
    build: Callable[..., PolicyEngine] | None = None,
    resume: Callable[[Fitted], None] | None = None,
    groups: ActingGroups | None = None,
) -> Fitted:
    """Learn in copies of a world, created by `make`; with `groups`, theirs act.

    `watch(fitted)` is called after every update and may end the run by returning True (a snapshot, a plot, a clock).
    `resume(fitted)` is called before the first step and may load weights, statistics and the count of steps.
    """
    envs = make(settings.envs if groups is None else 1)
    trial: Environments | None = None
    try:
        fitted = _start(envs, settings, seed, build or NumpyEngine, groups)
        engine, stage = fitted.engine, fitted.stage
        if resume is not None:
            resume(fitted)
        rng = np.random.default_rng([seed, fitted.steps, 0xF17])
        judged = fitted.steps
        while fitted.steps < settings.steps and not fitted.reached:
            if settings.schedule == "linear":
                engine.set_rate(settings.rate * max(1.0 - fitted.steps / settings.steps, 0.0))
            rollout = stage.collect(engine, horizon=settings.horizon, gamma=settings.gamma)
            fitted.steps += rollout.steps
            fitted.returns += rollout.returns
            rows = rows_of(rollout, gamma=settings.gamma, lam=settings.lam)
            fitted.last = update(engine, rows, settings, rng)
            if progress is not None:
                progress("steps", min(fitted.steps, settings.steps), settings.steps)
            every = settings.evaluate_every
            if every and (fitted.steps // every > judged // every or fitted.steps >= settings.steps):
                judged = fitted.steps
                trial = trial or make(settings.episodes)
                returns = evaluate(trial, engine, stage, episodes=settings.episodes, seed=seed + 1_000_003)
                fitted.curve.append(Evaluation(fitted.steps, float(np.mean(returns)), len(returns)))
                fitted.reached = reached(trial, fitted, fitted.curve[-1].mean, seed=seed + 2_000_003 + fitted.steps)
            if watch is not None and watch(fitted):
                break
        return fitted
    finally:
        envs.close()
        if trial is not None:
            trial.close()


def _start(
    envs: Environments, settings: Practice, seed: int, build: Callable[..., PolicyEngine], groups: ActingGroups | None
) -> Fitted:
    stage = Stage(
        envs, seed=seed, groups=groups,
        normalise_observations=settings.normalise_observations, normalise_rewards=settings.normalise_rewards,
    )  # fmt: skip
    shape = shape_of(stage.actions, stage.inputs, settings.hidden, settings.activation, settings.norm)
    engine = build(
        stage.actions, shape, seed=seed, rate=settings.rate, most_norm=settings.most_norm, decay=settings.decay,
        start=settings.start,
    )  # fmt: skip
    return Fitted(engine, stage, settings)


def reached(trial: Environments, fitted: Fitted, mean: float, *, seed: int) -> bool:
    """Whether this mean return and the mean of `confirm` fresh greedy episodes both reach the target.

    The first of many evaluations to reach a target is usually lucky; fresh episodes confirm it.
    """
    target = fitted.settings.target
    if target is None or mean < target:
        return False
    again = evaluate(trial, fitted.engine, fitted.stage, episodes=fitted.settings.confirm, seed=seed)
    return float(np.mean(again)) >= target


def judged(make: Callable[[int], Environments], fitted: Fitted, *, episodes: int, seed: int) -> Evaluation:
    """The mean return of held-out greedy episodes."""
    envs = make(min(episodes, fitted.settings.episodes))
    try:
        returns = evaluate(envs, fitted.engine, fitted.stage, episodes=episodes, seed=seed)
    finally:
        envs.close()
    return Evaluation(fitted.steps, float(np.mean(returns)), len(returns))


def snapshot(fitted: Fitted) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and JSON for `restore`."""
    state, taken = fitted.engine.state()
    scales = fitted.stage.scales
    arrays = {
        **fitted.engine.tensors(),
        **state,
        "observations.mean": scales.observations.mean,
        "observations.variance": scales.observations.variance,
        "rewards.variance": scales.rewards.variance,
        "rewards.mean": scales.rewards.mean,
    }
    told = {
        "steps": fitted.steps,
        "taken": taken,
        "counts": [scales.observations.count, scales.rewards.count],
        "curve": [[point.steps, point.mean, point.episodes] for point in fitted.curve],
    }
    return arrays, told


def restore(fitted: Fitted, arrays: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """Continue from a snapshot; KeyError or ValueError if it does not match."""
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("it holds numbers that are not finite")
    fitted.engine.load(arrays, int(document["taken"]))
    observations, rewards = fitted.stage.scales.observations, fitted.stage.scales.rewards
    for running, name, count in ((observations, "observations", 0), (rewards, "rewards", 1)):
        running.mean, running.variance = arrays[f"{name}.mean"], arrays[f"{name}.variance"]
        running.count = float(document["counts"][count])
    fitted.steps = int(document["steps"])
    fitted.curve = [Evaluation(int(steps), float(mean), int(count)) for steps, mean, count in document["curve"]]

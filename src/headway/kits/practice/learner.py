"""Learns the actor-critic: from a log of decisions, from a caller's experiences, or in a world.

    ActorCriticLearner(encoder).learn(experience, {}, seed=7)                  # logged decisions of a `choice` task
    policy = fresh(arms=["a", "b"], features=embedding_features(384), seed=7)  # untrained
    policy, metrics = update(policy, experiences)                              # one PPO update; the old one stays
    learned(practise_in(…))                                                       # what `promote` stores (see `fit.py`)
    on_text(fitted, encoder, Standardised(encoder, texts))    # the same for text, from standardised embeddings

From a log: PPO's trust region maximises the doubly robust estimate of the policy's value, see `climb.py`.

Not covered: sequences (each decision of a log is separate; worlds have episodes), features of candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features, Tracker, uncached
from headway.kits.practice import logged
from headway.kits.practice.climb import climb
from headway.kits.practice.engine import NumpyEngine, shape_of
from headway.kits.practice.fit import Fitted, Practice, Rows, Updated, settings_of, standardised, update as passes
from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import Array
from headway.kits.practice.policy import ActorCritic, read as read_policy
from headway.kits.practice.rollout import gae
from headway.learn import RowCounts, nothing_to_learn
from headway.nouns import Encoder, Experience, Floats, Learned, Progress, changed, errors, knob

# One update of the prompt-mutation learner: AdamW 3e-4, four passes over a buffer of 2,048 in batches of 64.
PROMPTS = Practice(
    hidden=(256, 256, 128), activation="relu", norm=True, start="xavier", epochs=4, minibatch=64, rate=3e-4,
    gamma=0.99, lam=0.95, clip=0.2, value_clip=0.2, value=0.5, entropy=0.01, most_norm=0.5, decay=0.01,
    target_kl=0.03, normalise_observations=False, normalise_rewards=False, envs=64, horizon=32,
)  # fmt: skip
_LEAST_TUNE = 20
_SAME = 1e-3  # log-probabilities closer than this come from the same policy


# -- policies


def embedding_features(width: int, name: str = "embedding") -> Features:
    """Features of a bare vector, scaled so that a unit vector's entries are about one."""
    return Features(vectors_of=((name, width),), means=(0.0,) * width, scales=(width**-0.5,) * width)


def fresh(
    *,
    arms: Sequence[str],
    features: Features,
    seed: int,
    settings: Practice = PROMPTS,
    encoder: Encoder | None = None,
    explore: str = "policy",
) -> ActorCritic:
    """An untrained policy."""
    actions = Actions("categorical", (len(arms),))
    engine = _engine(actions, features.width, settings, seed)
    return policy_of(engine, arms=arms, features=features, settings=settings, encoder=encoder, explore=explore)


def policy_of(
    engine: NumpyEngine,
    *,
    arms: Sequence[str],
    features: Features,
    settings: Practice,
    encoder: Encoder | None = None,
    explore: str = "policy",
) -> ActorCritic:
    """The policy with an engine's present weights. Its tensors include the optimiser, so updates can continue."""
    state, steps = engine.state()
    knobs = _stored(settings, explore) | {"adam_steps": steps}
    extra = {"arms": list(arms), "features": features.to_json(), "actions": engine.actions.to_json()}
    return read_policy(knobs, {**engine.tensors(), **state}, extra, encoder)


def _stored(settings: Practice, explore: str) -> dict[str, Any]:
    kept = ("activation", "norm", "clip", "entropy", "value", "gamma", "lam", "rate", "epochs", "minibatch", "decay")
    stored = {name: getattr(settings, name) for name in kept} | {"hidden": list(settings.hidden), "explore": explore}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in stored.items()}


def _engine(actions: Actions, width: int, settings: Practice, seed: int) -> NumpyEngine:
    shape = shape_of(actions, width, settings.hidden, settings.activation, settings.norm)
    return NumpyEngine(
        actions, shape, seed=seed, rate=settings.rate, most_norm=settings.most_norm, decay=settings.decay,
        start=settings.start,
    )  # fmt: skip


# -- experiences of callers


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiences:
    """A caller's steps in their order: [row] each, `state` and `next_state` [row, number].

    Rows of one episode follow one another. Where a row's `next_state` is not the next row's `state` and the row is not
    `done`, the episode was abandoned there: it counts as truncated.
    """

    state: NDArray[Any]
    action: NDArray[Any]
    reward: NDArray[Any]
    next_state: NDArray[Any]
    done: NDArray[Any]
    log_prob: NDArray[Any]
    value: NDArray[Any]
    truncated: NDArray[Any] | None = None
    allowed: NDArray[np.bool_] | None = None  # [row, action]


def update(
    policy: ActorCritic, experiences: Experiences, settings: Practice = PROMPTS, *, seed: int = 0
) -> tuple[ActorCritic, dict[str, float]]:
    """One PPO update from experiences: a new policy and its metrics. The given policy is never changed.

    If a row's log-probability is this policy's (up to rounding), it is recomputed in the order of the first pass, so
    that its first ratio is exactly one; a row of an older policy keeps its own. A number that is not finite, an unknown
    action or a state of another width is refused, and nothing is learned.
    """
    _check(policy, experiences)
    engine = _engine(policy.actions, policy.features.width, settings, seed)
    engine.load(policy.tensors, int(policy.knobs.get("adam_steps", 0)))
    x = policy.rows(experiences.state).astype(np.float32)
    after = policy.rows(experiences.next_state).astype(np.float32)
    action = np.asarray(experiences.action, dtype=np.int64).reshape(len(x), -1)
    values, next_values = engine.values(x), engine.values(after)
    over, cut = _endings(experiences, x, after)
    reward = np.asarray(experiences.reward, dtype=np.float32)
    advantage, returns = gae(reward, values, next_values, over, cut, gamma=settings.gamma, lam=settings.lam)
    given = np.asarray(experiences.log_prob, dtype=np.float32)
    present = engine.log_probabilities(x, action, experiences.allowed)
    stale = np.abs(given - present) > _SAME
    rows = Rows(
        x, action, standardised(advantage), returns, np.asarray(experiences.value, dtype=np.float32),
        old=given if stale.any() else None, allowed=experiences.allowed,
    )  # fmt: skip
    if stale.any() and not stale.all():
        rows = rows._replace(old=np.where(stale, given, present))
    rng = np.random.default_rng([seed, engine.adam.steps, 0xE47])
    updated = passes(engine, rows, settings, rng)
    metrics = _metrics(updated, settings.rate, stale)
    if not all(np.isfinite(metric) for metric in metrics.values()) or not np.isfinite(engine.network.theta).all():
        raise errors.InvalidInput(
            "The update did not give finite numbers; the policy is unchanged.",
            code="not_finite",
            hint="Check the rewards: they should be of the order of one.",
        )
    new = policy_of(
        engine, arms=policy.arms.names, features=policy.features, settings=settings, encoder=policy.encoder,
        explore=str(policy.knobs.get("explore", "policy")),
    )  # fmt: skip
    return new, metrics


def _endings(experiences: Experiences, x: Array, after: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """[row]: where an episode terminated, and where it was truncated or abandoned."""
    over = np.asarray(experiences.done, dtype=np.bool_)
    cut = np.zeros(len(x), dtype=np.bool_)
    if experiences.truncated is not None:
        cut |= np.asarray(experiences.truncated, dtype=np.bool_)
        over = over & ~cut
    cut[:-1] |= ~over[:-1] & (after[:-1] != x[1:]).any(axis=1)
    cut[-1] |= not over[-1]
    return over, cut


def _metrics(updated: Updated, rate: float, stale: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "policy_loss": updated.stats.policy_loss,
        "value_loss": updated.stats.value_loss,
        "entropy": updated.stats.entropy,
        "approx_kl": updated.stats.kl,
        "clip_fraction": updated.stats.clip_fraction,
        "learning_rate": rate,
        "passes": float(updated.passes),
        "stale": float(stale.mean()),
        "rows": float(len(stale)),
    }


def _check(policy: ActorCritic, given: Experiences) -> None:
    rows = len(given.action)
    if not rows:
        raise errors.InvalidInput(
            "There is no experience to learn from.", code="nothing_to_learn", hint="Collect some first."
        )
    width = sum(length for _, length in policy.features.vectors_of)
    for name in ("state", "next_state"):
        array = np.asarray(getattr(given, name))
        if array.shape != (rows, width):
            raise errors.InvalidInput(
                f"{name} has the shape {array.shape}, not {(rows, width)}.",
                code="bad_shape",
                hint=f"The policy expects {width} numbers.",
            )
    for name in ("state", "next_state", "reward", "log_prob", "value"):
        array = np.asarray(getattr(given, name), dtype=np.float64)
        if len(array) != rows or not np.isfinite(array).all():
            raise errors.InvalidInput(
                f"{name} has a number that is not finite.",
                code="not_finite",
                hint="Nothing was learned; omit such experiences.",
            )
    action = np.asarray(given.action)
    if action.dtype.kind not in "iu" or action.min() < 0 or action.max() >= len(policy.arms):
        raise errors.InvalidInput(
            f"There is an action that is not one of 0 … {len(policy.arms) - 1}.",
            code="unknown_action",
            hint=f"Actions are indices into {list(policy.arms.names)!r:.120}.",
        )


# -- worlds


def learned(fitted: Fitted, *, arms: Sequence[str] = (), explore: str = "policy") -> Learned:
    """The form that `promote` stores: the network with the world's scales as its features."""
    stage, settings = fitted.stage, fitted.settings
    features = getattr(stage.envs, "features", None)
    if features is None or settings.normalise_observations:
        features = Features(
            vectors_of=(("observation", stage.inputs),),
            means=tuple(stage.scales.means().tolist()),
            scales=tuple(stage.scales.deviations().tolist()),
        )
    tensors: dict[str, Any] = fitted.engine.tensors()
    for name in ("policy.w0", "value.w0"):
        # The features start with a constant; the practised network has biases and no such input.
        tensors[name] = np.concatenate([np.zeros((len(tensors[name]), 1)), tensors[name]], axis=1)
    names = list(arms) or list(getattr(stage.envs, "action_names", None) or map(str, range(stage.actions.outputs)))
    last = fitted.last.stats if fitted.last is not None else None
    metrics = {"steps": float(fitted.steps)}
    if fitted.curve:
        metrics["mean_return"] = fitted.curve[-1].mean
    if fitted.returns:
        metrics["mean_training_return"] = float(np.mean(fitted.returns[-100:]))
    if last is not None:
        metrics |= {"entropy": last.entropy, "kl": last.kl, "value_loss": last.value_loss}
    return Learned(
        family="actor_critic",
        tensors=tensors,
        knobs=_stored(settings, explore),
        metrics=metrics,
        baselines={},
        trained_on={"steps": fitted.steps, "episodes": len(fitted.returns)},
        extra={"arms": names, "features": features.to_json(), "actions": stage.actions.to_json()},
    )


# -- logs


class ActorCriticLearner:
    """The learner of the family `actor_critic`; `encoder` turns text into vectors (None: text is not used)."""

    family = "actor_critic"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self, experience: Experience, knobs: Mapping[str, Any], seed: int, progress: Progress | None = None
    ) -> Learned:
        wanted = _wanted(knobs)
        encoder = uncached(self.encoder)
        rng = np.random.default_rng(seed)
        tracker, names, most = Tracker(), set[str](), int(wanted["fit_rows"])
        for number, row in enumerate(row for row in experience.part("train") if row.reward is not None):
            if number < most:
                tracker.add(row.decision.situation)
            names.add(row.decision.action)
            if progress is not None and number % 10_000 == 9_999:
                progress("features", number + 1, None)
        arms = sorted(names)
        if not arms:
            raise nothing_to_learn()
        features = tracker.features(encoder)
        costs = {str(name): float(cost) for name, cost in dict(wanted["costs"] or {}).items()}
        weight = float(wanted["cost_weight"])
        counts = RowCounts()

        def read(part: str) -> logged.LoggedRows:
            return logged.gather(
                experience.part(part), features, encoder, arms, most=most, rng=rng, counts=counts,
                price=lambda arm: weight * costs.get(arm, 0.0),
            )  # fmt: skip

        train, tune = read("train"), read("tune")
        model = logged.fitted(train)
        held = tune if len(tune) >= _LEAST_TUNE else train
        rewards = logged.doubly_robust(held, model.predict(held.x))
        network, best, value = climb(train, held, rewards, wanted, seed, progress)
        return Learned(
            family="actor_critic",
            tensors=network.tensors(),
            knobs={**wanted, "hidden": list(wanted["hidden"]), "passes": best},
            metrics={"tune_value": value, "rows": float(len(train) + len(tune)), "passes": float(best)},
            baselines=dict(logged.baselines_of(held, rewards, model)),
            trained_on=counts | {"train": len(train), "tune": len(tune)},
            extra={
                "arms": arms,
                "features": features.to_json(),
                "actions": Actions("categorical", (len(arms),)).to_json(),
            },
        )


def _wanted(knobs: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asdict(changed("actor_critic", ActorCriticKnobs(), knobs))
    shared = {
        name: value for name, value in wanted.items() if name not in ("explore", "cost_weight", "costs", "fit_rows")
    }
    settings_of(shared)
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCriticKnobs:
    """The knobs of the family `actor_critic` (`headway learn --set`)."""

    hidden: tuple[int, ...] = knob((256, 256, 128), "The widths of the hidden layers.")
    activation: str = knob("relu", '"relu" or "tanh".')
    norm: bool = knob(True, "Whether layers are normalised.")
    start: str = knob("xavier", "How weights start.")
    epochs: int = knob(30, "How often the rows are gone through.")
    minibatch: int = knob(64, "Rows of an update.")
    rate: float = knob(3e-4, "The learning rate.")
    clip: float = knob(0.2, "How far the ratio of probabilities may move.")
    entropy: float = knob(0.01, "The weight of the entropy bonus.")
    value: float = knob(0.5, "The weight of the value loss.")
    decay: float = knob(0.01, "The weight decay.")
    most_norm: float = knob(0.5, "The largest norm of a gradient.")
    explore: str = knob("policy", '"policy", or "greedy": act on the first choice.', choices=("policy", "greedy"))
    cost_weight: float = knob(0.0, "How much a unit of cost takes off the reward.")
    costs: Mapping[str, float] = knob({}, "The cost of each action.")
    fit_rows: int = knob(50_000, "How many rows are read to find features.", low=1, high=10**9)


class Standardised:
    """An encoder whose features have mean 0 and deviation 1 on given texts, and stay within ±8.

    Standardising helps learning; it is folded into the first layer's weights, so that the policy takes the same text
    features as any other policy of the task.
    """

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._encoder = encoder
        self.version, self.width = encoder.version, encoder.width
        rows = encoder.encode(texts)
        self.means = rows.mean(axis=0)
        away = rows - self.means
        scales = np.maximum(away.std(axis=0), np.abs(away).max(axis=0) / Features.LIMIT)
        # A feature that no text has stays small: nothing is known about it.
        self.scales = np.where(scales > 1e-6, scales, 1.0)

    def encode(self, texts: Sequence[str]) -> Floats:
        vectors: Floats = (self._encoder.encode(texts) - self.means) / self.scales
        return vectors


def on_text(fitted: Fitted, encoder: Encoder, seen: Standardised | None = None, *, arms: Sequence[str]) -> Learned:
    """The practised network with text features as its input: a bias, the embedding, and the text's length."""
    if fitted.settings.normalise_observations:
        raise errors.InvalidInput(
            "Observations were standardised during practice, but text features are not.",
            code="bad_knob",
            hint="Omit normalise_observations.",
        )
    result = learned(fitted, arms=arms)
    features = Features(encoder=encoder.version, text_width=encoder.width, means=(0.0,), scales=(1.0,))
    tensors = dict(result.tensors)
    for name in ("policy.w0", "value.w0"):  # a column of zeros: the length is not used
        weights = np.concatenate([tensors[name], np.zeros((len(tensors[name]), 1))], axis=1)
        if seen is not None:
            weights[:, 1:-1] = weights[:, 1:-1] / seen.scales
            weights[:, 0] -= weights[:, 1:-1] @ seen.means
        tensors[name] = weights
    return replace(result, tensors=tensors, extra={**result.extra, "features": features.to_json()})

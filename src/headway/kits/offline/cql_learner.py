"""Learns a Q-network from logged decisions by conservative Q-learning, which is pessimistic about untried actions.

    CQLLearner(encoder).learn(experience, {}, seed=7)                      # each decision on its own
    CQLLearner(encoder).learn(experience, {"gamma": 0.99}, seed=7)         # steps of episodes
    CQLLearner(encoder).learn(experience, {"members": 4, "pessimism": 1.0}, seed=7)
    CQLLearner(encoder).learn(experience, {}, seed=7, resume=policy)       # continues; new arms are added

The loss is in `gradient.py`. Rewards are scaled to deviation one while learning (and with `gamma` 0 centred), so that
`alpha` means the same for every task. With `gamma` 0 and no `alpha`, a few values are tried and the one whose policy
has the greatest doubly robust value on the tune part is used, at the step with the least error there. With `gamma`
above 0, `alpha` is 1 and all steps are taken: single rows do not show a future.

Last, the tune part, which the steps did not use, calibrates the confidence (see `policy.py`). With `gamma` above 0
costs are part of the learned reward, else they are subtracted when it acts.

Not covered: more rows than `fit_rows` (the newest are used); features of candidates other than their cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from headway.decide import Chooser
from headway.kits.offline.cql import QNetwork
from headway.kits.offline.gradient import BestSteps, Steps, train_q, values
from headway.kits.offline.knobs import CQLKnobs
from headway.kits.offline.transitions import LearnerLog, Singles, Transitions, as_logged, read_log, resumed
from headway.kits.practice import Network, Shape, logged
from headway.nouns import Encoder, Experience, Floats, Learned, Policy, Progress, changed, errors

_ALPHAS = (0.02, 0.2, 1.0)
_LEAST_TUNE = 20
_POSTERIOR_ROWS = 20_000
_MOST_WEIGHT = 20.0


class CQLLearner:
    """The learner of the family `cql`; `encoder` turns text into vectors (None: text is not used)."""

    family = "cql"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self,
        experience: Experience,
        knobs: Mapping[str, Any],
        seed: int,
        progress: Progress | None = None,
        resume: Policy | None = None,
    ) -> Learned:
        """`resume`: a `cql` policy to continue from, with its features, network and arms."""
        wanted = _wanted(knobs)
        gamma = float(wanted["gamma"])
        before = resumed(resume, QNetwork)
        if before is not None:
            wanted["hidden"] = tuple(len(biases) for biases in before.members[0].biases[:-1])
            wanted["members"] = len(before.members)
        known = None if before is None else (before.features, before.arms.names)
        log = read_log(experience, self.encoder, most=int(wanted["fit_rows"]), gamma=gamma, before=known)
        train, tune = log.train, log.tune
        shift, scale = _reward_scale(log, gamma)
        if gamma > 0.0:
            train, tune = (_priced(part, log.arms, wanted) for part in (train, tune))
            wanted["cost_weight"] = 0.0
        fit = _Fit(train, tune, wanted, seed, shift, scale, before, progress)
        network, alpha, steps = fit.best()
        tensors = _unscaled(network.tensors(), len(fit.members), shift, scale)
        q = _together(values(network, tune.x), wanted, shift, scale)
        covariance, noise = _posterior(network, train, fit.residuals(network) * scale, log.spread)
        slope, value = _slope(tune, q, gamma)
        metrics = {
            "tune_error": fit.error(network) * scale * scale,
            "rows": log.rows,
            "left_out": float(train.left_out + tune.left_out),
            "steps": float(steps),
            "alpha": alpha,
            "confidence_slope": slope,
        }
        baselines: dict[str, float] = {}
        if gamma == 0.0 and len(tune):
            metrics["tune_value"], baselines = _robust_value(train, tune, q)
        elif len(tune):
            metrics["tune_value"] = value
        usual = log.mean if gamma == 0.0 else fit.worth(network) * scale
        kept = {key: value for key, value in wanted.items() if key not in ("fit_rows", "alpha", "steps")}
        return Learned(
            family="cql",
            tensors=tensors | {"covariance": covariance, "scale": np.array([noise, slope, usual])},
            knobs=kept | {"hidden": list(wanted["hidden"]), "alpha": alpha, "steps": steps},
            metrics=metrics,
            baselines=baselines,
            trained_on=log.trained_on(),
            extra=log.extra(),
        )


def _reward_scale(log: LearnerLog, gamma: float) -> tuple[float, float]:
    """What is subtracted from the rewards, and what divides them."""
    if not len(log.train):
        raise errors.InvalidInput(
            "There is no decision with a known future.",
            code="nothing_to_learn",
            hint="End episodes with `project.end_episode`, or learn with gamma = 0.",
        )
    if gamma == 0.0:
        return log.mean, max(log.spread, 1e-6)
    return 0.0, max(float(np.sqrt(np.square(log.train.reward[log.train.usable]).mean())), 1e-6)


def _robust_value(train: Transitions, tune: Transitions, q: Floats) -> tuple[float, dict[str, float]]:
    """The doubly robust value of the first choice on the tune part, and of the baselines."""
    held, model = as_logged(tune), logged.fitted(as_logged(train))
    rewards = logged.doubly_robust(held, model.predict(held.x))
    value = logged.value_of(_first(q[tune.usable], held.offered), rewards)
    return value, dict(logged.baselines_of(held, rewards, model))


class _Fit:
    """Trains networks on scaled rewards, and measures their error on held-out rows."""

    def __init__(
        self,
        train: Transitions,
        tune: Transitions,
        wanted: Mapping[str, Any],
        seed: int,
        shift: float,
        scale: float,
        before: QNetwork | None,
        progress: Progress | None,
    ) -> None:
        self.train = _scaled(train, shift, scale)
        self.tune = _scaled(tune, shift, scale)
        self.wanted, self.seed, self.before, self.progress = wanted, seed, before, progress
        self.shift, self.scale = shift, scale
        self.gamma = float(wanted["gamma"])
        self.searching = len(tune) >= _LEAST_TUNE and self.gamma == 0.0
        self.members = tuple((f"q{number}", train.offered.shape[1]) for number in range(int(wanted["members"])))

    def best(self) -> tuple[Network, float, int]:
        """The best network, its alpha and its number of steps."""
        given = self.wanted["alpha"]
        alphas = (float(given),) if given is not None else _ALPHAS if self.searching else (1.0,)
        fits = [(self._one(alpha), alpha) for alpha in alphas]
        if len(fits) == 1:
            (network, steps), alpha = fits[0]
            return network, alpha, steps
        held = as_logged(self.tune)
        rewards = logged.doubly_robust(held, logged.fitted(as_logged(self.train)).predict(held.x))

        def value(one: tuple[tuple[Network, int], float]) -> float:
            q = _together(values(one[0][0], self.tune.x), self.wanted, 0.0, 1.0)
            return logged.value_of(_first(q[self.tune.usable], held.offered), rewards)

        (network, steps), alpha = max(fits, key=value)
        return network, alpha, steps

    def _one(self, alpha: float) -> tuple[Network, int]:
        wanted, rng = self.wanted, np.random.default_rng([self.seed, 0xC91])
        shape = Shape(
            inputs=self.train.x.shape[1], hidden=tuple(wanted["hidden"]), towers=self.members, activation="relu"
        )
        network = Network(shape, seed=self.seed, gains=[0.1] * len(self.members))
        if self.before is not None:
            network.load(_widened(self.before, self.train.offered.shape[1], self.shift, self.scale))
        total = int(wanted["steps"] or (20_000 if self.gamma else 3_000))
        take = Steps(
            steps=total,
            batch=int(wanted["batch"]),
            rate=float(wanted["rate"]),
            decay=float(wanted["decay"]),
            gamma=self.gamma,
            alpha=alpha,
            target_every=int(wanted["target_every"]),
            look_every=max(50, total // 40),
            settle=0.5 if self.gamma else 0.0,  # greedy actions of a network that still changes are erratic
        )
        best = BestSteps(network, self.error(network) if self.before else np.inf)

        def looked(step: int) -> bool:
            if self.progress is not None:
                self.progress(f"steps with alpha {alpha:g}", step, total)
            return self.searching and best.ends(step, self.error(network))

        train_q(network, self.train, take, rng, looked)
        return network, best.take() if self.searching and np.isfinite(best.error) else total

    def residuals(self, network: Network, log: Transitions | None = None) -> Singles:
        """Q(x, a) minus its target, for every usable row of the train part, in scaled units."""
        log = self.train if log is None else log
        rows = log.usable
        q = _mean(values(network, log.x))
        aim = log.reward[rows]
        after = log.next[rows]
        if self.gamma and (after >= 0).any():
            best = np.where(log.offered, q, -np.inf).max(axis=1)
            aim = aim + np.where(after >= 0, np.float32(self.gamma) * best[after], 0.0).astype(np.float32)
        error: Singles = q[rows, log.action[rows]] - aim
        return error

    def worth(self, network: Network) -> float:
        """The mean Q of the logged actions."""
        rows = self.train.usable
        return float(_mean(values(network, self.train.x))[rows, self.train.action[rows]].mean())

    def error(self, network: Network) -> float:
        """Mean squared error on the tune part, as if all candidates had been tried equally often."""
        if not len(self.tune):
            return float(np.square(self.residuals(network)).mean())
        gaps = self.residuals(network, self.tune)
        rows = self.tune.usable
        even = 1.0 / (self.tune.offered[rows].sum(axis=1) * np.maximum(self.tune.propensity[rows], 1e-3))
        weight = np.minimum(even, 10.0) * self.tune.weight[rows]
        return float((weight * np.square(gaps)).sum() / max(float(weight.sum()), 1e-12))


def _scaled(log: Transitions, shift: float, scale: float) -> Transitions:
    return replace(log, reward=((log.reward - np.float32(shift)) / np.float32(scale)).astype(np.float32))


def _priced(log: Transitions, arms: Sequence[str], wanted: Mapping[str, Any]) -> Transitions:
    """Rewards minus the cost of the action."""
    costs = dict(wanted["costs"] or {})
    price = np.array([float(costs.get(name, 0.0)) for name in arms]) * float(wanted["cost_weight"])
    return replace(log, reward=(log.reward - price[log.action]).astype(np.float32))


def _mean(members: Sequence[Singles]) -> Singles:
    return members[0] if len(members) == 1 else np.mean(members, axis=0, dtype=np.float32)


def _together(members: Sequence[Singles], wanted: Mapping[str, Any], shift: float, scale: float) -> Floats:
    """[row, arm] as the policy computes it, in units of reward."""
    q = np.stack(members).astype(np.float64) * scale + shift
    together: Floats = q.mean(axis=0)
    if len(q) > 1 and wanted["pessimism"]:
        together -= float(wanted["pessimism"]) * q.std(axis=0, ddof=1)
    return together


def _unscaled(tensors: Mapping[str, Floats], members: int, shift: float, scale: float) -> dict[str, Floats]:
    """The same networks in units of reward: scale and shift go into their last layers."""
    unscaled = dict(tensors)
    for number in range(members):
        last = max(int(name.rpartition(".w")[2]) for name in unscaled if name.startswith(f"q{number}.w"))
        unscaled[f"q{number}.w{last}"] = unscaled[f"q{number}.w{last}"] * scale
        unscaled[f"q{number}.b{last}"] = unscaled[f"q{number}.b{last}"] * scale + shift
    return unscaled


def _widened(policy: QNetwork, outputs: int, shift: float, scale: float) -> dict[str, Floats]:
    """The policy's networks in scaled units with more outputs; a new arm starts at the mean."""
    widened: dict[str, Floats] = {}
    usual = (float(np.asarray(policy.tensors["scale"])[2]) - shift) / scale
    for number, member in enumerate(policy.members):
        tensors = member.tensors(f"q{number}")
        last = len(member.weights) - 1
        weight, bias = tensors[f"q{number}.w{last}"] / scale, (tensors[f"q{number}.b{last}"] - shift) / scale
        more = outputs - len(bias)
        tensors[f"q{number}.w{last}"] = np.concatenate([weight, np.zeros((more, weight.shape[1]))])
        tensors[f"q{number}.b{last}"] = np.concatenate([bias, np.full(more, usual)])
        widened |= tensors
    return widened


def _posterior(network: Network, log: Transitions, residuals: Singles, spread: float) -> tuple[Floats, float]:
    """P [arm + 1, 1 + hidden, 1 + hidden] of the last layer of the first member, and the residual variance."""
    rows = log.usable[-_POSTERIOR_ROWS:]
    hidden = _hidden(network, log.x[rows])
    phi = np.concatenate([np.ones((len(rows), 1)), hidden], axis=1)
    noise = max(float(np.square(residuals, dtype=np.float64).mean()), 1e-9)
    # The prior deviation of an unknown arm is two deviations of the rewards.
    prior = 4.0 * max(spread * spread, noise) / (noise * max(float(np.square(phi).sum(axis=1).mean()), 1e-9))
    width, arms = phi.shape[1], log.offered.shape[1]
    covariances = np.empty((arms + 1, width, width))
    covariances[arms] = np.eye(width) * prior
    action = log.action[rows]
    for arm in range(arms):
        mine = phi[action == arm]
        inverse = np.linalg.inv(mine.T @ mine + np.eye(width) / prior)
        covariances[arm] = 0.5 * (inverse + inverse.T)
    return covariances, noise


def _hidden(network: Network, x: Singles) -> Floats:
    """[row, last hidden] of the first tower."""
    hidden: Any = x
    for place, width in enumerate(network.shape.hidden):
        weight = network.weights[place][:, :width] if place == 0 else network.weights[place][0]
        hidden = np.maximum(hidden @ weight + network.biases[place][0], 0.0)
    return np.asarray(hidden, dtype=np.float64)


def _slope(tune: Transitions, q: Floats, gamma: float) -> tuple[float, float]:
    """The share of the predicted gaps between first and second choice that the tune part confirms: 0 … 1.

    Least squares of doubly robust gaps on predicted ones, shrunk towards 1 if rows are few (prior deviation .25).
    """
    rows = tune.usable
    if gamma > 0.0 or len(rows) < _LEAST_TUNE or q.shape[1] < 2:
        return 1.0, float(q[rows].max(axis=1).mean()) if len(rows) else 0.0
    scores = np.where(tune.offered[rows], q[rows], -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")
    line, action = np.arange(len(rows)), tune.action[rows]
    one, two = order[:, 0], order[:, 1]
    two = np.where(np.isfinite(scores[line, two]), two, one)
    gap = q[rows][line, one] - q[rows][line, two]
    left = tune.reward[rows] - q[rows][line, action]
    weight = np.minimum(1.0 / np.maximum(tune.propensity[rows], 1e-9), _MOST_WEIGHT)
    shown = gap + weight * left * ((action == one).astype(float) - (action == two).astype(float))
    square = float((gap * gap).sum())
    if square <= 0.0:
        return 1.0, 0.0
    slope = float((gap * shown).sum()) / square
    error = float(((gap * (shown - slope * gap)) ** 2).sum()) / (square * square)
    drawn = (1.0 / 0.0625 + slope / max(error, 1e-12)) / (1.0 / 0.0625 + 1.0 / max(error, 1e-12))
    return float(np.clip(drawn, 0.0, 1.0)), 0.0


def _first(q: Floats, offered: Any) -> Floats:
    """All weight on the best offered arm."""
    first = np.zeros_like(q)
    first[np.arange(len(q)), np.where(offered, q, -np.inf).argmax(axis=1)] = 1.0
    return first


def _wanted(knobs: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asdict(changed("cql", CQLKnobs(), knobs))
    Chooser(wanted)  # refuses an explorer that is none
    return wanted

"""Behaviour cloning: learns to choose what the logged policy chose.

    CloneLearner(encoder).learn(experience, {}, seed=7)
    CloneLearner(encoder).learn(experience, {}, seed=7, resume=policy)       # continues; new arms are added

The network maximises the likelihood of the logged actions among their candidates (`gradient.py`) until the loss on the
tune part stops falling. Then the temperature is fitted on that part, so that confidence is the share of cases in which
the logged policy does the same. Rows without a reward are not used.

Not covered: rewards. It cannot become better than the policy it copies, except by dropping its randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from headway.kits.offline.clone import Clone
from headway.kits.offline.gradient import BestSteps, Steps, train_clone, values
from headway.kits.offline.knobs import CloneKnobs
from headway.kits.offline.transitions import Singles, Transitions, read_log, resumed
from headway.kits.practice import Network, Shape
from headway.nouns import Encoder, Experience, Floats, Learned, Policy, Progress, changed

_LEAST_TUNE = 20


class CloneLearner:
    """The learner of the family `clone`; `encoder` turns text into vectors (None: text is not used)."""

    family = "clone"

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
        """`resume`: a `clone` policy to continue from, with its features, network and arms."""
        wanted = _wanted(knobs)
        before = resumed(resume, Clone)
        if before is not None:
            wanted["hidden"] = tuple(len(biases) for biases in before.actor.biases[:-1])
        known = None if before is None else (before.features, before.arms.names)
        log = read_log(experience, self.encoder, most=int(wanted["fit_rows"]), before=known)
        train, tune = log.train, log.tune
        network, steps = _fitted(train, tune, wanted, seed, before, progress)
        held = tune if len(tune) >= _LEAST_TUNE else train
        logits = values(network, held.x[held.usable])[0].astype(np.float64)
        action, offered = held.action[held.usable], held.offered[held.usable]
        temperature = _temperature(logits, action, offered) if held is tune else 1.0
        right = np.where(offered, logits, -np.inf).argmax(axis=1) == action
        often = np.bincount(train.action[train.usable], minlength=len(log.arms)).argmax()
        return Learned(
            family="clone",
            tensors=network.tensors() | {"temperature": np.array([temperature])},
            knobs={**wanted, "hidden": list(wanted["hidden"]), "steps": steps},
            metrics={
                "tune_loss": _loss(logits / temperature, action, offered),
                "tune_agreement": float(right.mean()),
                "temperature": temperature,
                "rows": log.rows,
                "steps": float(steps),
            },
            baselines={
                "majority_agreement": float((action == often).mean()),
                "uniform_loss": float(np.log(offered.sum(axis=1)).mean()),
                "behaviour": float(held.reward[held.usable].mean()),
            },
            trained_on=log.trained_on(),
            extra=log.extra(),
        )


def _fitted(
    train: Transitions,
    tune: Transitions,
    wanted: Mapping[str, Any],
    seed: int,
    before: Clone | None,
    progress: Progress | None,
) -> tuple[Network, int]:
    """The network with the least loss on the tune part, and its number of steps."""
    count_of_arms = train.offered.shape[1]
    shape = Shape(
        inputs=train.x.shape[1], hidden=tuple(wanted["hidden"]), towers=(("policy", count_of_arms),), activation="relu"
    )
    network = Network(shape, seed=seed, gains=[0.1])
    if before is not None:
        network.load(_widened(before, count_of_arms))
    rows, held = train.usable, tune.usable
    searching = len(tune) >= _LEAST_TUNE
    total = int(wanted["steps"])
    take = Steps(
        steps=total, batch=int(wanted["batch"]), rate=float(wanted["rate"]), decay=float(wanted["decay"]),
        look_every=max(50, total // 40),
    )  # fmt: skip
    best = BestSteps(network, np.inf)
    held_x, held_action, held_offered = tune.x[held], tune.action[held], tune.offered[held]

    def looked(step: int) -> bool:
        if progress is not None:
            progress("steps", step, total)
        return searching and best.ends(step, _loss(values(network, held_x)[0], held_action, held_offered))

    rng = np.random.default_rng([seed, 0xC10])
    train_clone(network, train.x[rows], train.action[rows], train.offered[rows], train.weight[rows], take, rng, looked)
    return network, best.take() if searching and np.isfinite(best.error) else total


def _loss(logits: Floats | Singles, action: Any, offered: Any) -> float:
    """Mean −log softmax of the logged action; a chosen arm counts as offered."""
    line = np.arange(len(logits))
    scores = np.where(offered, logits, -np.inf)
    scores[line, action] = logits[line, action]
    top = scores.max(axis=1)
    total = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
    return float((total - logits[line, action]).mean())


def _temperature(logits: Floats, action: Any, offered: Any) -> float:
    """The temperature with the least loss, by golden section over its logarithm (the loss is convex in 1/T)."""
    low, high, ratio = np.log(0.05), np.log(20.0), (5.0**0.5 - 1.0) / 2.0

    def loss(at: float) -> float:
        return _loss(logits / np.exp(at), action, offered)

    one, two = high - ratio * (high - low), low + ratio * (high - low)
    first, second = loss(one), loss(two)
    for _ in range(40):
        if first < second:
            high, two, second = two, one, first
            one = high - ratio * (high - low)
            first = loss(one)
        else:
            low, one, first = one, two, second
            two = low + ratio * (high - low)
            second = loss(two)
    return float(np.exp(0.5 * (low + high)))


def _widened(policy: Clone, outputs: int) -> dict[str, Floats]:
    """The policy's network with more outputs; a new arm starts as the mean of the others."""
    tensors = policy.actor.tensors("policy")
    last = len(policy.actor.weights) - 1
    weight, bias = tensors[f"policy.w{last}"], tensors[f"policy.b{last}"]
    more = outputs - len(bias)
    tensors[f"policy.w{last}"] = np.concatenate([weight, np.tile(weight.mean(axis=0), (more, 1))])
    tensors[f"policy.b{last}"] = np.concatenate([bias, np.full(more, bias.mean())])
    return tensors


def _wanted(knobs: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(changed("clone", CloneKnobs(), knobs))

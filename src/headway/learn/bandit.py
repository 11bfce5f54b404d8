"""Learns the contextual bandit from logged decisions, in closed form and bounded memory.

    learned = BanditLearner(encoder).learn(experience, {}, seed=7)
    learned = BanditLearner(encoder).learn(experience, {"model": "linear", "ridge": 3.0}, seed=7)

Three passes: the first (at most `fit_rows` rows) finds the features and a sample to cluster, the second sums up the
train part, the third the tune part. Ridge, prior, model, number of clusters and shrinkage are those with the least
squared error on the tune part, each row weighted as if all candidates had been tried equally often. Knobs that the
caller sets are not searched. The policy is then fitted on train and tune together.

Not covered: rewards that change with time (all rows count alike); candidates' own features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import Clusters, Explorer, Linear, rounded
from headway.encode import Features, Tracker, uncached
from headway.learn import online
from headway.learn.counts import RowCounts, nothing_to_learn
from headway.learn.posterior import clusters_posterior, linear_posterior, pooled_mean
from headway.learn.sums import Sums, blocks, gather, kmeans, newest
from headway.nouns import Encoder, Experience, Floats, Learned, Policy, Progress, Settled, Situation, changed, knob
from headway.observe import Batch, FirstRows

_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_PRIORS = ("mean", "pooled", "shared")  # without text, `shared` is not searched
_SIZES = (4, 8, 16, 32)
_SHRINKS = (1.0, 5.0, 20.0, 100.0)
_SAMPLE = 4096
_MOST_VALUED = 20_000  # tune rows that the values are computed on, the newest ones
_LEAST_TUNE = 20  # rows; with fewer, nothing is searched
_WIDEST = 1024  # features; with more, only clusters are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    knobs: dict[str, Any]
    error: float
    tensors: dict[str, Floats] = field(repr=False)


class BanditLearner:
    """The learner of the family `bandit`; `encoder` turns text into vectors (None: text is not used)."""

    family = "bandit"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self, experience: Experience, knobs: Mapping[str, Any], seed: int, progress: Progress | None = None
    ) -> Learned:
        wanted = _checked(knobs)
        encoder = uncached(self.encoder)  # a long stream would evict useful vectors
        rng = np.random.default_rng(seed)
        features, sample = _look(experience, encoder, int(wanted["fit_rows"]), rng, progress)
        counts = RowCounts()
        linear = wanted["model"] != "clusters" and features.width <= _WIDEST
        centroids = _centroids(features.vectors(sample, encoder), wanted, rng, linear)
        train, tune, weighted = (Sums(features.width, centroids, linear=linear) for _ in range(3))

        both = blocks(experience, "train"), blocks(experience, "tune")
        sizes = gather(both[0], train, features, encoder, counts=counts, done=_phase(progress, "train"))
        done, trained = _phase(progress, "tune"), sum(sizes)
        held = gather(both[1], tune, features, encoder, weighted=weighted, counts=counts, done=done)
        tuned = sum(held)
        arms = sorted({*train.arms, *tune.arms})
        if not arms or not trained:
            raise nothing_to_learn()
        parts, searched = (train.ordered(arms), weighted.ordered(arms)), tuned >= _LEAST_TUNE
        best, choices = _choose(*parts, wanted, centroids, searched, features.text_width)
        kept = {key: wanted[key] for key in ("explore", "cost_weight", "costs")}
        state = _state(features, self.encoder, {**best.knobs, **kept}, arms, (train, tune), centroids)
        metrics, baselines = tune_values(
            newest(blocks(experience, "tune" if tuned else "train"), held if tuned else sizes, _MOST_VALUED),
            features=features,
            encoder=encoder,
            arms=arms,
            chosen=best.knobs,
            tensors={name: choice.tensors for name, choice in choices.items()},
            totals=train.ordered(arms)[2],
        )
        metrics |= {"tune_error": best.error, "rows": float(trained + tuned), "tuned": float(searched)}
        baselines |= _errors(train.ordered(arms)[2], weighted.ordered(arms)[2])
        if "linear" in choices:
            baselines["error_linear"] = choices["linear"].error
        return Learned(
            family="bandit",
            tensors=online.tensors_of(state),
            knobs=state.knobs,
            metrics=metrics,
            baselines=baselines,
            trained_on=counts | {"train": trained, "tune": tuned},
            extra={"arms": arms, "features": features.to_json()},
        )

    def start(
        self, features: Features, knobs: Mapping[str, Any] | None = None, arms: Sequence[str] = ()
    ) -> online.State:
        """A live state without rows."""
        return online.start(features, self.encoder, knobs, arms)

    def state_from(self, policy: Policy) -> online.State:
        """A live state that continues from the policy's bundle."""
        return online.state_from(policy)

    def update(self, state: online.State, row: Settled, sign: int = 1) -> None:
        """Add one settled row, or (sign=-1) remove exactly that row."""
        online.update(state, row, sign)

    def snapshot(self, state: online.State) -> Policy:
        """An immutable policy of the state's rows."""
        return online.snapshot(state)

    def learned(self, state: online.State, trained_on: Mapping[str, Any] | None = None) -> Learned:
        """The state in the form that `promote` stores."""
        return Learned(
            family="bandit",
            tensors=online.tensors_of(state),
            knobs=state.knobs,
            metrics={"rows": float(state.seen[0])},
            baselines={},
            trained_on=dict(trained_on or {}),
            extra={"arms": list(state.arms), "features": state.features.to_json()},
        )


def _phase(progress: Progress | None, name: str) -> Callable[[int], None] | None:
    return None if progress is None else lambda count: progress(name, count, None)


def _checked(knobs: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asdict(changed("bandit", BanditKnobs(), knobs))
    Explorer.of(wanted["explore"])
    return wanted


def _look(
    experience: Experience, encoder: Encoder | None, most: int, rng: np.random.Generator, progress: Progress | None
) -> tuple[Features, list[Situation]]:
    """The features of the first rows, and a uniform sample of them to cluster (reservoir sampling).

    Once there are enough rows, the first ones stay the same, so what was found in them is kept.
    """
    ask = getattr(experience, "head", None)
    head: FirstRows | None = None if ask is None else ask("train", most)
    about = json.dumps([1, most, encoder.version if encoder is not None else "", rng.bit_generator.state])
    known = None if head is None else head.kept(about)
    if head is not None and known is not None:
        found = json.loads(known)
        sample = head.situations(found["sample"])
        if len(sample) == len(found["sample"]):
            rng.bit_generator.state = found["state"]
            return Features.from_json(found["features"]), sample
    tracker, sample, seqs, seen = Tracker(), list[Situation](), list[int](), 0
    for batch in chain.from_iterable(block.batches() for block in blocks(experience, "train")):
        for seq, situation in zip(batch.seq.tolist()[: most - seen], batch.situations, strict=False):
            tracker.add(situation)
            if seen < _SAMPLE:
                sample.append(situation)
                seqs.append(seq)
            elif (place := int(rng.integers(seen + 1))) < _SAMPLE:
                sample[place], seqs[place] = situation, seq
            seen += 1
        if progress is not None:
            progress("features", seen, None)
        if seen >= most:
            break
    features = tracker.features(encoder)
    if head is not None:
        document = {"features": features.to_json(), "sample": seqs, "state": rng.bit_generator.state}
        head.keep(about, json.dumps(document).encode())
    return features, sample


def _centroids(x: Floats, wanted: Mapping[str, Any], rng: np.random.Generator, linear: bool) -> dict[int, Floats]:
    if wanted["model"] == "linear" or not len(x):
        return {}
    different = len(np.unique(x, axis=0))
    sizes = [int(wanted["clusters"])] if wanted["clusters"] else [size for size in _SIZES if size * 50 <= len(x)]
    sizes = sizes or ([] if linear and wanted["model"] is None else [_SIZES[0]])
    sizes = sorted({min(size, different) for size in sizes})  # no more clusters than different situations
    return {size: rounded(kmeans(x, size, rng)) for size in sizes}


def _choose(
    train: tuple[Floats, Floats, Floats, dict[int, Floats]],
    tune: tuple[Floats, Floats, Floats, dict[int, Floats]],
    wanted: Mapping[str, Any],
    centroids: Mapping[int, Floats],
    search: bool,
    text: int,
) -> tuple[_Choice, dict[str, _Choice]]:
    """The best of each model, and the best of all, by weighted squared error on the tune part."""
    moments, targets, totals, clusters = train
    best: dict[str, _Choice] = {}

    def offer(model: str, knobs: dict[str, Any], tensors: dict[str, Floats], error: float) -> None:
        if model not in best or error < best[model].error:
            best[model] = _Choice(knobs={"model": model, **knobs}, error=error, tensors=tensors)

    rows = max(float(tune[2][:, 0].sum()), 1e-300)
    if moments.shape[1]:
        priors = _PRIORS if text else _PRIORS[:2]
        for ridge in [wanted["ridge"]] if wanted["ridge"] else _RIDGES if search else (10.0,):
            for prior in [wanted["prior"]] if wanted["prior"] else priors if search else ("mean",):
                tensors = linear_posterior(moments, targets, totals, float(ridge), prior, text)
                theta = tensors["weights"][:-1]
                fit = np.einsum("kd,kde,ke->", theta, tune[0], theta) - 2.0 * (theta * tune[1]).sum()
                error = (float(tune[2][:, 2].sum()) + float(fit)) / rows
                offer("linear", {"ridge": float(ridge), "prior": prior}, tensors, error)
    for size, table in clusters.items():
        for shrink in [wanted["shrink"]] if wanted["shrink"] else _SHRINKS if search else (5.0,):
            tensors = {"centroids": centroids[size], **clusters_posterior(table, float(shrink))}
            means, held = tensors["means"][:, :-1], tune[3][size]
            error = float((held[..., 2] - 2.0 * means * held[..., 1] + means * means * held[..., 0]).sum()) / rows
            offer("clusters", {"clusters": size, "shrink": float(shrink)}, tensors, error)
    if not search and "linear" in best:
        return best["linear"], best
    return min(best.values(), key=lambda choice: choice.error), best


def _state(
    features: Features,
    encoder: Encoder | None,
    knobs: dict[str, Any],
    arms: list[str],
    parts: tuple[Sums, Sums],
    centroids: Mapping[int, Floats],
) -> online.State:
    """The state of train and tune together: their sums are added."""
    one, other = (part.ordered(arms) for part in parts)
    state = online.State(features, encoder, knobs, arms)
    if state.linear:
        state.moments, state.targets, state.totals = one[0] + other[0], one[1] + other[1], one[2] + other[2]
    else:
        size = int(knobs["clusters"])
        state.centroids = centroids[size]
        state.totals = one[3][size] + other[3][size]
    state.seen[0] = state.totals[..., 0].sum()
    return state


def _errors(train: Floats, tune: Floats) -> dict[str, float]:
    """Squared errors on the tune part of two models that ignore the situation."""
    rows = float(tune[:, 0].sum())
    if rows <= 0.0:
        return {}
    pooled = pooled_mean(train)
    own = np.where(train[:, 0] > 0, train[:, 1] / np.maximum(train[:, 0], 1.0), pooled)

    def error(guess: Floats) -> float:
        return float((tune[:, 2] - 2.0 * guess * tune[:, 1] + guess * guess * tune[:, 0]).sum()) / rows

    return {"error_mean": error(np.full(len(train), pooled)), "error_arm_means": error(own)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditKnobs:
    """The knobs of the family `bandit` (`headway learn --set`). None: chosen by the error on the tune part."""

    model: str | None = knob(None, '"linear" or "clusters".', choices=("linear", "clusters"))
    ridge: float | None = knob(None, "How strongly weights are pulled towards the prior.", low=1e-6, high=1e9)
    prior: str | None = knob(None, 'What an arm is assumed to be worth: "mean", "pooled" or "shared".', choices=_PRIORS)
    clusters: int | None = knob(None, "How many clusters of situations.", low=1e-6, high=1e9)
    shrink: float | None = knob(None, "How strongly a cluster is pulled towards its arm.", low=1e-6, high=1e9)
    explore: str | Mapping[str, Any] = knob("squarecb", "How the policy itself explores.")
    cost_weight: float = knob(0.0, "How much a unit of cost takes off the reward.")
    costs: Mapping[str, float] = knob({}, "The cost of each action.")
    fit_rows: int = knob(200_000, "How many rows are read to find features.", low=1e-6, high=1e9)


_MOST_WEIGHT = 50.0


def tune_values(
    rows: Iterable[Batch],
    *,
    features: Features,
    encoder: Encoder | None,
    arms: Sequence[str],
    chosen: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, Floats]],
    totals: Floats,
) -> tuple[dict[str, float], dict[str, float]]:
    """({"tune_value": …}, {"behaviour", "uniform", "constant_best", "linear": …}); costs are not subtracted.

    `tensors` are those of the best model of each kind, fitted on the train part; `totals` [arm, 3] the train part's.

    For a target π, logged with propensity μ, and a model q fitted on the train part only (Dudík et al., 2011):

        V(π) = mean[ Σ_a π(a)·q(a) + min(π(chosen)/μ, 50)·(r − q(chosen)) ]

    For information only: `prove` judges on rows that no learner has read.
    """
    models = _models(tensors)
    model = models[chosen["model"]]
    index = {name: place for place, name in enumerate(arms)}
    every = np.arange(len(arms) + 1)  # the last column is an unknown arm
    pooled = pooled_mean(totals)
    means = (totals[:, 1] + pooled) / (totals[:, 0] + 1.0)
    constant = int(means.argmax())
    sums: dict[str, float] = {"behaviour": 0.0, "uniform": 0.0, "constant_best": 0.0, "chosen": 0.0}
    if "linear" in models:
        sums["linear"] = 0.0
    count, seen = 0, list[float]()  # rewards at the ends: what a mean cannot leave
    masks: dict[tuple[str, ...], Floats] = {}
    for batch in rows:
        if not len(batch):
            continue
        x = features.vectors(batch.situations, encoder)
        offered = np.stack(
            [_mask(names, index, masks) for names in batch.offered]
        )  # [row, arm + 1]: the number of candidates in each column
        q = model.mean(x, every)
        targets = {
            "uniform": offered / offered.sum(axis=1, keepdims=True),
            "constant_best": _constant(offered, constant),
            "chosen": _best(q, offered),
        }
        if "linear" in models:
            own = q if model is models["linear"] else models["linear"].mean(x, every)
            targets["linear"] = _best(own, offered)
        _add(sums, batch, q, offered, targets, index)
        count += len(batch)
        seen += [float(batch.reward.min()), float(batch.reward.max())]
    if not count:
        return {}, {}
    values = {name: min(max(total / count, min(seen)), max(seen)) for name, total in sums.items()}
    return {"tune_value": values.pop("chosen")}, values


def _models(tensors: Mapping[str, Mapping[str, Floats]]) -> dict[str, Linear | Clusters]:
    models: dict[str, Linear | Clusters] = {}
    if "linear" in tensors:
        best = tensors["linear"]
        models["linear"] = Linear(best["weights"], best["covariance"], best["noise"])
    if "clusters" in tensors:
        best = tensors["clusters"]
        models["clusters"] = Clusters(best["centroids"], best["means"], best["stds"])
    return models


def _add(
    sums: dict[str, float],
    batch: Batch,
    q: Floats,
    offered: Floats,
    targets: Mapping[str, Floats],
    index: Mapping[str, int],
) -> None:
    """Add the batch's doubly robust values of the targets, and its rewards."""
    reward = batch.reward
    # With an unknown propensity there is no correction: only the model counts.
    propensity = np.where(batch.propensity > 0.0, batch.propensity, np.inf)
    action = np.array([index.get(name, len(index)) for name in batch.actions])
    rows: NDArray[np.int64] = np.arange(len(batch))
    left = reward - q[rows, action]
    for name, target in targets.items():
        share = target[rows, action] / np.maximum(offered[rows, action], 1.0)
        weight = np.minimum(share / np.maximum(propensity, 1e-12), _MOST_WEIGHT)
        sums[name] += float((target * q).sum() + (weight * left).sum())
    sums["behaviour"] += float(reward.sum())


def _mask(names: tuple[str, ...], index: Mapping[str, int], known: dict[tuple[str, ...], Floats]) -> Floats:
    mask = known.get(names)
    if mask is None:
        mask = np.zeros(len(index) + 1)
        for name in names:
            mask[index.get(name, len(index))] += 1.0
        if len(known) > 4096:
            known.clear()
        known[names] = mask
    return mask


def _best(q: Floats, offered: Floats) -> Floats:
    target = np.zeros_like(q)
    best = np.where(offered > 0, q, -np.inf).argmax(axis=1)
    target[np.arange(len(q)), best] = 1.0
    return target


def _constant(offered: Floats, arm: int) -> Floats:
    """All weight on one arm if it is offered, else uniform."""
    target: Floats = offered / offered.sum(axis=1, keepdims=True)
    there = offered[:, arm] > 0
    target[there] = 0.0
    target[there, arm] = 1.0
    return target

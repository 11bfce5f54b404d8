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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np

from headway.decide import Explorer, rounded
from headway.encode import Features, Tracker, uncached
from headway.learn import online
from headway.learn.bandit_knobs import BanditKnobs
from headway.learn.counts import add_counts, no_counts, nothing_to_learn
from headway.learn.knobs import checked
from headway.learn.posterior import clusters_posterior, linear_posterior, pooled_mean
from headway.learn.sums import Sums, batches, gather, kmeans
from headway.learn.values import tune_values
from headway.nouns import Encoder, Experience, Floats, InvalidSettings, Learned, Policy, Progress, Settled, Situation
from headway.observe import Batch

_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_PRIORS = ("mean", "pooled", "shared")  # without text, `shared` is not searched
_SIZES = (4, 8, 16, 32)
_SHRINKS = (1.0, 5.0, 20.0, 100.0)
_SAMPLE = 4096
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
        features, sample, counts = _look(experience, encoder, wanted["fit_rows"], rng, progress)
        linear = wanted["model"] != "clusters" and features.width <= _WIDEST
        centroids = _centroids(features.vectors(sample, encoder), wanted, rng, linear)
        train, tune, weighted = (Sums(features.width, centroids, linear=linear) for _ in range(3))

        rows = _counted(batches(experience, "train"), counts)
        trained = gather(rows, train, features, encoder, done=_phase(progress, "train"))
        rows = _counted(batches(experience, "tune"), counts)
        tuned = gather(rows, tune, features, encoder, weighted=weighted, done=_phase(progress, "tune"))
        arms = sorted({*train.arms, *tune.arms})
        if not arms or not trained:
            raise nothing_to_learn()
        parts, searched = (train.ordered(arms), weighted.ordered(arms)), tuned >= _LEAST_TUNE
        best, choices = _choose(*parts, wanted, centroids, searched, features.text_width)
        kept = {key: wanted[key] for key in ("explore", "cost_weight", "costs")}
        state = _state(features, self.encoder, {**best.knobs, **kept}, arms, (train, tune), centroids)
        metrics, baselines = tune_values(
            batches(experience, "tune" if tuned else "train"),
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
    wanted = checked("bandit", knobs, BanditKnobs)
    if wanted["model"] not in (None, "linear", "clusters") or wanted["prior"] not in (None, *_PRIORS):
        raise InvalidSettings(
            f"The bandit cannot be model {wanted['model']!r} with prior {wanted['prior']!r}.",
            code="bad_knob",
            hint='model is "linear" or "clusters", prior "mean", "pooled" or "shared".',
        )
    Explorer.of(wanted["explore"])
    return wanted


def _look(
    experience: Experience, encoder: Encoder | None, most: int, rng: np.random.Generator, progress: Progress | None
) -> tuple[Features, list[Situation], dict[str, Any]]:
    """The features of the first rows, and a uniform sample of them to cluster (reservoir sampling)."""
    tracker, sample = Tracker(), list[Situation]()
    situations = chain.from_iterable(batch.situations for batch in batches(experience, "train"))
    for seen, situation in enumerate(islice(situations, most)):
        tracker.add(situation)
        if seen < _SAMPLE:
            sample.append(situation)
        elif (place := int(rng.integers(seen + 1))) < _SAMPLE:
            sample[place] = situation
        if progress is not None and (seen + 1) % 10_000 == 0:
            progress("features", seen + 1, None)
    return tracker.features(encoder), sample, no_counts()


def _counted(rows: Iterable[Batch], counts: dict[str, Any]) -> Iterator[Batch]:
    """The same batches, counted by source and status on the way."""
    for batch in rows:
        add_counts(batch.counts, counts)
        yield batch


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

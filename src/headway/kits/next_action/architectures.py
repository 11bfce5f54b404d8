"""Compares architectures on the tuning rows and keeps the best one, with its calibrated spread.

A transformer learns what the linear model leaves over on rows that it was not fitted on (five folds by state). It is
kept only where it predicts the tuning rows better by more than two standard errors. Then the linear model is
fitted again on training and tuning rows together; measures and intervals are those from before, on rows that were not
fitted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.kits.next_action.layout import RankedRows, Singles, widths
from headway.kits.next_action.linear import LinearChoice
from headway.kits.next_action.measures import Measures, majority_accuracy, measure
from headway.kits.next_action.policy import Z80, restored
from headway.kits.next_action.regression import Regression, fit_regression, pick_regression, read_regression
from headway.kits.next_action.shapes import SIZES, RankerShape
from headway.nouns import Floats, Progress, errors

_FOLDS = 5
_CLEARLY = 2.0  # standard errors of the lead over the linear model
_AUTO = ("small", "full")
_AGREES = 0.99  # rank correlation of predictions with 8 and with 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRanker:
    """The best architecture, what it is made of, and what the others reached."""

    architecture: str
    tensors: Mapping[str, Any]
    shape: RankerShape | None
    measures: Measures
    simple: Mapping[str, Measures]  # linear, per type, majority
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A trained transformer on the tuning rows, in units of the reward's deviation."""

    name: str
    shape: RankerShape
    tensors: Mapping[str, Singles]
    correction: Floats  # of the linear prediction
    spread: Floats
    rounded: Floats  # the correction with weights of 8 bits


def compared(
    learning: RankedRows, judging: RankedRows, wanted: Mapping[str, Any], seed: int,
    progress: Progress | None, work: Path | None,
) -> BestRanker:  # fmt: skip
    rng = np.random.default_rng([seed, 0x11])
    rows, tune = learning.linear(), judging.linear()
    choice = pick_regression(rows, tune, rng)
    model = read_regression(fit_regression(rows, choice, rng), learning.layout)
    linear = _apply(model, judging)
    asked = wanted["architecture"]
    trials, notes = list[_Trial](), list[str]()
    sizes = _AUTO if asked == "auto" else tuple(name for name in (asked,) if name in SIZES)
    try:
        if sizes:
            base = (linear, _crossfitted(learning, choice, seed))
            trials = _networks(sizes, learning, judging, base, wanted, seed, progress, work)
    except errors.MissingExtra as error:
        if asked != "auto":
            raise
        notes.append(f"No transformer was learned: {error}")
    best = _best(asked, trials, linear, judging)
    architecture = "linear" if best is None else best.name
    predicted, spread = linear, np.ones(len(linear))
    tensors: dict[str, Any] = dict(fit_regression(rows + tune, choice, rng))
    if best is not None:
        predicted, spread = linear + best.correction, best.spread
        stored, said = _stored(best, linear, int(wanted["bits"]))
        tensors |= stored
        notes += said
    factor = _factor(predicted, spread, judging, learning, _apply(model, learning))
    tensors["units"] = np.array([learning.centre, learning.scale, factor / Z80])
    measures = _measured(predicted, judging, factor * spread * learning.scale)
    simple = _simple(linear, learning, judging)
    notes += [f"The linear model has products of {'three' if choice.cubes else 'two'} columns."]
    notes = [_words(architecture, measures, simple, judging), *_errors(trials, linear, judging), *notes]
    return BestRanker(
        architecture=architecture, tensors=tensors, shape=None if best is None else best.shape, measures=measures,
        simple=simple, notes=tuple(notes),
    )  # fmt: skip


def _errors(trials: list[_Trial], linear: Floats, judging: RankedRows) -> list[str]:
    if not trials or not len(linear):
        return []
    corrections = {"linear": np.zeros(len(linear)), **{trial.name: trial.correction for trial in trials}}
    squared = {name: ((linear + value - judging.units) ** 2).mean() for name, value in corrections.items()}
    listed = ", ".join(f"{name} {error:.3f}" for name, error in squared.items())
    return [f"Error on the tuning rows, as a share of the variance: {listed}."]


def _apply(model: Regression, rows: RankedRows) -> Floats:
    return model.rows(rows.states[rows.owner], rows.actions)


def _networks(
    sizes: tuple[str, ...], learning: RankedRows, judging: RankedRows, linear: tuple[Floats, Floats],
    wanted: Mapping[str, Any], seed: int, progress: Progress | None, work: Path | None,
) -> list[_Trial]:  # fmt: skip
    """Transformers on top of a linear model: its predictions of tuning rows, and of training rows as if left out."""
    from headway.kits.next_action.network import RankerNetwork
    from headway.kits.next_action.train import NetworkRows, TrainSettings, device_named, outputs_of, train

    tuned, apart = linear
    device = device_named(str(wanted["device"]))
    names = ("epochs", "batch", "rate", "decay", "dropout", "pairs")
    settings = TrainSettings(device=device, seed=seed, **{name: wanted[name] for name in names})

    def rows(some: RankedRows, linear: Floats) -> NetworkRows:
        states, actions = some.inputs()
        return NetworkRows(states, some.owner, actions, linear, some.units, some.weight)

    training, tuning = rows(learning, apart), rows(judging, tuned)
    trials = []
    for size in sizes:
        shape = RankerShape.of(size, **widths(learning.layout))
        trained = train(training, tuning, shape, settings, progress, _snapshot(work, size, settings, training))
        network = RankerNetwork(shape, seed=seed)
        network.load(trained.tensors)
        outputs = outputs_of(network, tuning, "cpu").astype(np.float64)
        small = eight_bits(trained.tensors)
        network.load({name: restored(small, name, form, prefix="") for name, form in shape.tensors().items()})
        rounded = outputs_of(network, tuning, "cpu")[:, 0].astype(np.float64)
        spread = np.exp(np.clip(outputs[:, 1], -4.0, 4.0))
        trial = _Trial(
            name=size, shape=shape, tensors=trained.tensors, correction=outputs[:, 0], spread=spread, rounded=rounded
        )
        trials.append(trial)
    return trials


def _snapshot(work: Path | None, size: str, settings: Any, rows: Any) -> Path | None:
    """Where training is saved: a name of everything that it depends on."""
    if work is None:
        return None
    content = hashlib.sha256(repr((size, settings)).encode())
    for array in (rows.linear, rows.reward, rows.weight, rows.actions.text, rows.actions.traits, rows.states.numbers):
        content.update(np.ascontiguousarray(array).tobytes())
    return work / f"ranker-{size}-{content.hexdigest()[:16]}.safetensors"


def _crossfitted(learning: RankedRows, choice: LinearChoice, seed: int) -> Floats:
    """The linear predictions of the training rows, each by a model that was not fitted on its state."""
    rng = np.random.default_rng([seed, 0x12])
    fold = rng.permutation(len(learning.situations)) % _FOLDS
    predicted = np.zeros(len(learning.reward))
    for number in range(_FOLDS):
        inside = fold[learning.owner] == number
        if not inside.any() or inside.all():
            continue
        outside = learning.linear(np.flatnonzero(~inside))
        model = read_regression(fit_regression(outside, choice, rng), learning.layout)
        predicted[inside] = _apply(model, learning)[inside]
    return predicted


def _best(asked: str, trials: list[_Trial], linear: Floats, judging: RankedRows) -> _Trial | None:
    if not trials:
        return None

    def error(correction: Floats | float) -> float:
        return float(np.average((linear + correction - judging.units) ** 2, weights=judging.weight))

    best = min(trials, key=lambda trial: error(trial.correction))
    lead = judging.weight * ((linear - judging.units) ** 2 - (linear + best.correction - judging.units) ** 2)
    clearly = float(lead.sum()) > _CLEARLY * float(lead.std()) * len(lead) ** 0.5
    return best if asked != "auto" or clearly else None


def _stored(trial: _Trial, linear: Floats, bits: int) -> tuple[dict[str, Any], list[str]]:
    """The tensors of a bundle. 8 bits only if they rank the tuning rows in the same order."""
    plain = {f"net.{name}": value for name, value in trial.tensors.items()}
    if bits == 32:
        return plain, []
    agreement = spearman(linear + trial.correction, linear + trial.rounded)
    if agreement < _AGREES:
        return plain, [f"Weights stay in 32 bits: with 8, the rank correlation of predictions is {agreement:.3f}."]
    small = {f"net.{name}": value for name, value in eight_bits(trial.tensors).items()}
    return small, [f"Weights are stored in 8 bits; the rank correlation with 32 bits is {agreement:.4f}."]


def spearman(one: Floats, other: Floats) -> float:
    """The rank correlation of two predictions of the same rows."""
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1]) if len(one) > 1 else 1.0


def eight_bits(tensors: Mapping[str, Singles]) -> dict[str, Any]:
    """Matrices as uint8 with a step per column; vectors stay float32."""
    small: dict[str, Any] = {}
    for name, value in tensors.items():
        if value.ndim < 2:
            small[name] = value
            continue
        step = np.abs(value).max(axis=0) / 127.0
        step = np.where(step == 0.0, 1.0, step).astype(np.float32)
        small[name] = (np.rint(value / step).clip(-127, 127) + 128.0).astype(np.uint8)
        small[f"{name}.step"] = step
    return small


def _factor(predicted: Floats, spread: Floats, judging: RankedRows, learning: RankedRows, fitted: Floats) -> float:
    """How many spreads hold 80% of the tuning rows (of the training rows, where there are very few)."""
    ratios = np.abs(predicted - judging.units) / spread
    if len(ratios) < 20:
        ratios = np.concatenate([ratios, np.abs(fitted - learning.units)])
    place = min(1.0, np.ceil(0.8 * (len(ratios) + 1)) / len(ratios))
    return max(float(np.quantile(ratios, place, method="higher")), 1e-6)


def _measured(units: Floats, judging: RankedRows, half: Floats | None = None) -> Measures:
    return measure(judging.centre + judging.scale * units, judging.reward, judging.owner.tolist(), half)


def _simple(linear: Floats, learning: RankedRows, judging: RankedRows) -> dict[str, Measures]:
    means = learning.type_means()
    by_type = np.array([means.get(name, learning.centre) for name in judging.types])
    constant = _measured(np.zeros(len(linear)), judging)
    majority = Measures(
        error=constant.error, sign_accuracy=majority_accuracy(learning.reward, judging.reward), rank_correlation=None,
        regret=constant.regret,
    )  # fmt: skip
    typed = measure(by_type, judging.reward, judging.owner.tolist())
    return {"linear": _measured(linear, judging), "type": typed, "majority": majority}


def _words(architecture: str, mine: Measures, simple: Mapping[str, Measures], judging: RankedRows) -> str:
    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    others = ", ".join(f"{name} {shown(value.sign_accuracy)}" for name, value in simple.items() if name != architecture)
    return (
        f"Architecture {architecture}. On {len(judging.reward):,} tuning rows: sign accuracy "
        f"{shown(mine.sign_accuracy)} ({others}), rank correlation within a state {shown(mine.rank_correlation)}, "
        f"80% intervals hold {shown(mine.coverage)} (they were fitted on these rows)."
    )

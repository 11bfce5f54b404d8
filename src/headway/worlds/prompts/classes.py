"""Which class a prompt is of, by the encoder, and how sure that is.

    classifier = fit_classes(encoder)
    classifier.classify(["Please write a slogan for a bakery"])[0]     # Classified(kind="marketing", confidence=0.85)
    classifier.accuracy, classifier.error                              # on corpus prompts that it did not see

One ridge regression per class on the prompt's embedding, fitted in closed form on generated prompts (phrases.py) and on
the corpus, each of whose prompts counts as much as ten generated ones. Confidence is a softmax of the scores whose
temperature is chosen by cross-validation over the corpus: where it says 0.8, about four in five are right. How often
it is right depends on the encoder: hashed words know few of the corpus's, a sentence model knows what they mean.

Not covered: prompts of two classes at once, and classes that are not among the seven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns.protocols import Encoder, Floats
from headway.worlds.prompts.corpus import CLASSES, corpus
from headway.worlds.prompts.phrases import examples

__all__ = ["Classified", "Classifier", "fit_classes"]

_RIDGE = 3.0
_CORPUS_WEIGHT = 10.0
_FOLDS = 9
_GENERATED = 700
_TEMPERATURES = np.geomspace(0.02, 2.0, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    kind: str
    confidence: float
    shares: dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """Immutable; safe from threads."""

    encoder: Encoder
    weights: Floats  # [width + 1, class]
    temperature: float
    accuracy: float  # on corpus prompts left out of the fit
    error: float  # |confidence - share right|, expected, over the same

    def classify(self, texts: Sequence[str]) -> list[Classified]:
        shares = _softmax(_with_bias(self.encoder.encode(list(texts))) @ self.weights, self.temperature)
        return [
            Classified(
                kind=CLASSES[int(row.argmax())],
                confidence=float(row.max()),
                shares=dict(zip(CLASSES, row.tolist(), strict=True)),
            )
            for row in shares
        ]


def fit_classes(encoder: Encoder, *, seed: int = 0) -> Classifier:
    """Fits on generated prompts and the corpus; the same for the same encoder and seed."""
    made, known = examples("train", _GENERATED, seed), corpus()
    both = [(each.text, each.kind) for each in made] + [(each.text, each.kind) for each in known]
    x = _with_bias(encoder.encode([text for text, _ in both]))
    place = np.array([CLASSES.index(kind) for _, kind in both], dtype=np.int64)
    weight = np.concatenate([np.ones(len(made)), np.full(len(known), _CORPUS_WEIGHT)])
    first = len(made)
    order = np.random.default_rng(seed).permutation(len(known))
    scores = np.zeros((len(known), len(CLASSES)))
    for fold in range(_FOLDS):
        out = order[fold::_FOLDS]
        kept = np.ones(len(x), dtype=np.bool_)
        kept[first + out] = False
        scores[out] = x[first + out] @ _ridge(x[kept], place[kept], weight[kept])
    truth = place[first:]
    losses = [-np.log(_softmax(scores, each)[np.arange(len(truth)), truth]).mean() for each in _TEMPERATURES]
    temperature = float(_TEMPERATURES[int(np.argmin(losses))])
    shares = _softmax(scores, temperature)
    return Classifier(
        encoder=encoder,
        weights=_ridge(x, place, weight),
        temperature=temperature,
        accuracy=float((shares.argmax(axis=1) == truth).mean()),
        error=_calibration_error(shares, truth),
    )


def _with_bias(x: Floats) -> Floats:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _ridge(x: Floats, place: NDArray[np.int64], weight: Floats) -> Floats:
    target = np.eye(len(CLASSES))[place]
    weighted = x * weight[:, None]
    found: Floats = np.asarray(
        np.linalg.solve(weighted.T @ x + _RIDGE * np.eye(x.shape[1]), weighted.T @ target), dtype=np.float64
    )
    return found


def _softmax(scores: Floats, temperature: float) -> Floats:
    shifted = (scores - scores.max(axis=1, keepdims=True)) / temperature
    powers = np.exp(shifted)
    found: Floats = powers / powers.sum(axis=1, keepdims=True)
    return found


def _calibration_error(shares: Floats, truth: NDArray[np.int64]) -> float:
    """Expected calibration error over four bins of equal size."""
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == truth
    bins = np.array_split(np.argsort(confidence), 4)
    return float(sum(len(each) * abs(confidence[each].mean() - right[each].mean()) for each in bins) / len(truth))

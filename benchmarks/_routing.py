"""The parts of benchmarks/routing.py: the data, RouteLLM's metrics, the baselines, and our router.

RouteLLM's metrics (Ong et al., 2024, and its `routellm.evals`): the router's score is cut at its 11 decile edges; at
each cut the prompts at or above it go to the strong model. From the resulting (share of strong calls, accuracy) points:

    PGR   = (accuracy − weak's) / (strong's − weak's), the share of the performance gap that is recovered
    APGR  = the area under PGR over the share of strong calls (trapezoids)
    CPT(q) = the share of strong calls at which PGR reaches q, by linear interpolation

On the **cost axis** the same points are drawn over the share of the extra cost (all weak = 0, all strong = 1) instead.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.nouns.kit import catalogue
from headway.nouns.records import Candidate, Decision, Settled, Situation

PRICES = {"weak": (0.6, 0.6), "strong": (10.0, 30.0)}  # US dollars per million tokens, in and out


@dataclass(frozen=True)
class Outcomes:
    """Prompts and the score of every model on them."""

    prompts: list[str]
    subjects: Any  # [prompt]
    models: tuple[str, ...]
    scores: Any  # [prompt, model]
    groups: Any  # [prompt]: equal prompts are one group


def read(path: Path) -> Outcomes:
    """A CSV `subject, prompt, MODEL_correct, …` or JSON lines `{question, scores: {model: score}}`, gzipped or not."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        if ".jsonl" in path.name:
            rows = [json.loads(line) for line in lines if line.strip()]
            models = tuple(sorted(rows[0]["scores"]))
            prompts = [row["question"] for row in rows]
            subjects = np.array([row.get("subject", "") for row in rows])
            scores = np.array([[float(row["scores"][name]) for name in models] for row in rows])
        else:
            table = list(csv.DictReader(lines))
            names = [name for name in table[0] if name.endswith("_correct")]
            means = {name: sum(float(row[name]) for row in table) for name in names}
            names.sort(key=lambda name: means[name])  # the weakest first, the strongest last
            models = tuple(name.removesuffix("_correct") for name in names)
            prompts = [row["prompt"] for row in table]
            subjects = np.array([row["subject"] for row in table])
            scores = np.array([[float(row[name]) for name in names] for row in table])
    seen: dict[str, int] = {}
    return Outcomes(
        prompts, subjects, models, scores, np.array([seen.setdefault(prompt, len(seen)) for prompt in prompts])
    )


def extra_cost(prompts: Sequence[str]) -> Any:
    """The extra cost of the strong model: a quarter token per character in, one token out."""
    tokens = np.array([len(prompt) / 4.0 for prompt in prompts])
    (weak_in, weak_out), (strong_in, strong_out) = PRICES["weak"], PRICES["strong"]
    return tokens * (strong_in - weak_in) + (strong_out - weak_out)


# -- metrics


def curve(score: Any, weak: Any, strong: Any, cost: Any, cuts: int = 10) -> Any:
    """[cut, (share of strong calls, accuracy, share of extra cost)], in order of the first."""
    edges = np.quantile(score, np.linspace(0.0, 1.0, cuts + 1))
    points = []
    for number, edge in enumerate(edges):
        chosen = score >= edge if number < cuts else score > edge
        points.append((chosen.mean(), np.where(chosen, strong, weak).mean(), cost[chosen].sum() / cost.sum()))
    return np.array(sorted(points))


def apgr(score: Any, weak: Any, strong: Any, cost: Any) -> tuple[float, float]:
    """On the call axis and on the cost axis."""
    points = curve(score, weak, strong, cost)
    low, gap = weak.mean(), strong.mean() - weak.mean()
    areas = []
    for axis in (0, 2):
        x = points[:, axis]
        areas.append(float(np.trapezoid(points[:, 1] - low, x) / (gap * (x[-1] - x[0]))))
    return areas[0], areas[1]


def call_thresholds(score: Any, weak: Any, strong: Any, cost: Any) -> tuple[float, float]:
    """CPT at 50 and 80%: percent of strong calls."""
    points = curve(score, weak, strong, cost)
    low, gap = weak.mean(), strong.mean() - weak.mean()
    return tuple(float(np.interp(low + q * gap, points[:, 1], points[:, 0] * 100.0)) for q in (0.5, 0.8))  # type: ignore[return-value]


def bootstrap(
    one: Sequence[tuple[Any, Any]], other: Sequence[tuple[Any, Any]], weak: Any, strong: Any, cost: Any, axis: int,
    *, draws: int, seed: int = 0,
) -> tuple[float, float]:  # fmt: skip
    """95% interval of APGR(one) − APGR(other), by a paired bootstrap; both are lists of (score, rows), averaged."""
    rng = np.random.default_rng(seed)
    differences = np.zeros(draws)
    for (first, rows), (second, _) in zip(one, other, strict=True):
        w, s, c = weak[rows], strong[rows], cost[rows]
        for draw in range(draws):
            pick = rng.integers(len(rows), size=len(rows))
            a = apgr(first[pick], w[pick], s[pick], c[pick])[axis]
            differences[draw] += a - apgr(second[pick], w[pick], s[pick], c[pick])[axis]
    differences /= len(one)
    return float(np.quantile(differences, 0.025)), float(np.quantile(differences, 0.975))


# -- ours


class Recorded:
    """Full-feedback rows as settled decisions: one per prompt and model. A fifth of the groups is the tune part."""

    def __init__(self, data: Outcomes, rows: Any, by: Any) -> None:
        candidates = tuple(Candidate(name) for name in data.models)
        share = 1.0 / len(candidates)
        self._parts: dict[str, list[Settled]] = {"train": [], "tune": []}
        seq = 0
        for row in rows:
            part = "tune" if fraction(f"tune\0{by[row]}") < 0.2 else "train"
            situation = Situation(task="route", text=data.prompts[row])
            for place, name in enumerate(data.models):
                seq += 1
                decision = Decision(
                    id=f"dec_{seq}", situation=situation, candidates=candidates,
                    probabilities=(share,) * len(candidates), action=name, propensity=share, policy="uniform@0",
                    policy_hash="", config_hash="", encoder="", exploration="", seed=seq, at=float(seq),
                    source="imported",
                )  # fmt: skip
                reward = float(data.scores[row, place])
                self._parts[part].append(Settled(seq=seq, decision=decision, reward=reward, status="rewarded"))

    def __iter__(self) -> Iterator[Settled]:
        return iter([*self._parts["train"], *self._parts["tune"]])

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def part(self, name: str) -> list[Settled]:
        return self._parts[name]


def fraction(text: str) -> float:
    """A number in 0 … 1 that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def ours(
    data: Outcomes, train: Any, test: Any, encoders: Sequence[Any], by: Any, say: Callable[[str], None]
) -> tuple[Any, dict[str, Any]]:
    """[test row, model]: predicted scores; encoder, ridge and share chosen on a fifth of the training groups."""
    experience = Recorded(data, train, by)
    tried = []
    for known in encoders:
        learned = catalogue().learner("outcome", encoder=known).learn(experience, {}, seed=0)
        tried.append((learned.metrics["tune_loss"], known, learned))
    loss, encoder, learned = min(tried, key=lambda one: one[0])
    say(
        f"  chosen on training rows: {encoder.version}, ridge {learned.knobs['ridge']:g}, share "
        f"{learned.knobs['share']:g}, log loss {loss:.4f}"
    )
    policy: Any = catalogue().build(learned.family, learned.knobs, learned.tensors, learned.extra, encoder)
    situations = [Situation(task="route", text=data.prompts[row]) for row in test]
    candidates = tuple(Candidate(name) for name in data.models)
    predicted = policy.opinions(situations, candidates, range(len(situations)), confidence=False).mean
    return predicted, {"learned": learned, "encoder": encoder}


# -- baselines, by scikit-learn


def tfidf_pair(data: Outcomes, train: Any, test: Any) -> Any:
    """Two logistic regressions on TF-IDF 1-2-grams: P(strong is right) − P(weak is right)."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    x = words.fit_transform([data.prompts[row] for row in train])
    return logistic_pair(x, words.transform([data.prompts[row] for row in test]), data.scores[train])


def logistic_pair(x: Any, z: Any, scores: Any, strength: float = 1.0) -> Any:
    from sklearn.linear_model import LogisticRegression

    weak, strong = (
        LogisticRegression(C=strength, max_iter=500).fit(x, scores[:, place]).predict_proba(z)[:, 1]
        for place in (0, scores.shape[1] - 1)
    )
    return strong - weak


def tfidf_ridge(data: Outcomes, train: Any, test: Any) -> Any:
    """[test row, model]: ridge regression on TF-IDF 1-2-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    x = words.fit_transform([data.prompts[row] for row in train])
    return Ridge(alpha=3.0).fit(x, data.scores[train]).predict(words.transform([data.prompts[row] for row in test]))


def ranks(score: Any) -> Any:
    from scipy.stats import rankdata

    return rankdata(score) / len(score)

"""Worlds of known value: logs are drawn from them, and the exact value of any policy is computed, not estimated."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.prove.log import Floats, Log

__all__ = ["EXACT_VALUES", "NineModels", "nine_models", "routing_log", "routing_policies"]

ROLES = ("planner", "architect", "coder", "debugger", "reviewer", "test_engineer", "documentation", "memory_optimizer")
EXACT_VALUES = {
    "always_primary": 0.484,
    "behaviour": 0.834,
    "role_rules": 0.884,
    "plain_rules": 0.918,
    "always_fallback": 0.990,
}


def routing_policies(role: NDArray[np.int64], c: Floats, f: NDArray[np.int64]) -> dict[str, Floats]:
    """P(fallback) of five policies over primary and fallback model."""
    plain = (c > 0.8) | (f >= 2)
    by_role = np.where(role <= 1, plain, np.where(role == 3, f >= 1, f >= 2))
    return {
        "always_primary": np.zeros(c.size),
        "behaviour": np.clip(0.15 + 0.55 * c + 0.08 * f, 0.05, 0.95),
        "role_rules": by_role.astype(np.float64),
        "plain_rules": plain.astype(np.float64),
        "always_fallback": np.ones(c.size),
    }


def routing_log(n: int, rng: np.random.Generator) -> tuple[Log, dict[str, Floats]]:
    """A log of the synthetic routing task, and the [n, 2] probabilities of the five policies on its rows."""
    role, c, f = rng.integers(0, len(ROLES), n), rng.random(n), rng.integers(0, 5, n)
    policies = {name: np.stack([1.0 - p, p], axis=1) for name, p in routing_policies(role, c, f).items()}
    logged = policies["behaviour"]
    action = (rng.random(n) < logged[:, 1]).astype(np.int64)
    base = 0.85 - 0.45 * c - 0.08 * f + action * (0.35 * c + 0.05 * f) + rng.uniform(-0.05, 0.05, n)
    base = np.clip(base, 0.0, 1.0)
    reward = np.clip(base + np.where(base >= 0.5, 0.25, -0.15), -2.0, 2.0)
    features = np.concatenate([np.eye(len(ROLES))[role], np.eye(5)[f], np.stack([c, c * f], axis=1)], axis=1)
    log = Log.of(
        reward=reward,
        action=action,
        logged=logged,
        target=policies["plain_rules"],
        features=features,
        arms=("primary", "fallback"),
    )
    return log, policies


@dataclass(frozen=True, slots=True, kw_only=True)
class NineModels:
    """Questions with the score of each of nine models: any logging can be simulated, any policy's value is exact."""

    scores: Floats  # [question, model]
    features: Floats  # [question, d]
    models: tuple[str, ...]
    current: NDArray[np.int64]  # [question]; the best single model
    better: NDArray[np.int64]  # [question]; a router that prefers another model where it predicts a higher score
    null: NDArray[np.int64]  # [question]; deviates as often, and is exactly as good

    def value(self, policy: NDArray[np.int64]) -> float:
        return float(self.scores[np.arange(policy.size), policy].mean())

    def one_hot(self, policy: NDArray[np.int64]) -> Floats:
        out: Floats = np.eye(len(self.models))[policy]
        return out

    def log(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        target: NDArray[np.int64],
        epsilon: float,
        canary: float = 0.0,
    ) -> Log:
        """n questions drawn with replacement, answered by the current model, ε of the time by a random one; the canary
        share goes to the target (with the same ε)."""
        question = rng.integers(0, self.current.size, n)
        arms = len(self.models)
        baseline, policy = self.one_hot(self.current[question]), self.one_hot(target[question])
        mixed = (1.0 - canary) * baseline + canary * policy
        logged = (1.0 - epsilon) * mixed + epsilon / arms
        action = (rng.random(n)[:, None] > np.cumsum(logged, axis=1)).sum(axis=1).clip(0, arms - 1)
        return Log.of(
            reward=self.scores[question, action],
            action=action,
            logged=logged,
            target=policy,
            baseline=baseline,
            features=self.features[question],
            arms=self.models,
        )


def nine_models(path: Path, *, uplift: float = 0.025, width: int = 24) -> NineModels:
    """The data with three policies. `path` is nine_models_train.jsonl.gz."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    models = tuple(sorted(rows[0]["scores"]))
    scores = np.array([[row["scores"][name] for name in models] for row in rows], dtype=np.float64)
    wide = _hashed([row["question"] for row in rows], 2048)
    rng = np.random.default_rng(0)
    features = wide @ (rng.standard_normal((wide.shape[1], width)) / np.sqrt(width))
    fold = np.array([zlib.crc32(row["question"].encode()) % 5 for row in rows])  # a repeated question has one fold
    predicted = _cross_ridge(wide, scores, fold, 30.0)  # the router never answers a question of its training fold
    best = int(scores.mean(axis=0).argmax())
    current = np.full(len(scores), best)
    gain = predicted - predicted[:, [best]]
    choice, promise = gain.argmax(axis=1), gain.max(axis=1)
    realised = scores[np.arange(len(scores)), choice] - scores[:, best]
    order = np.argsort(-promise, kind="stable")
    reached = np.cumsum(realised[order]) / len(scores)
    enough = np.flatnonzero(reached >= uplift)
    moved = order[: int(enough[0] if enough.size else reached.argmax()) + 1]
    better = current.copy()
    better[moved] = choice[moved]
    return NineModels(
        scores=scores,
        features=features,
        models=models,
        current=current,
        better=better,
        null=_null(scores, current, better, rng),
    )


def _null(
    scores: Floats, current: NDArray[np.int64], better: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Moves as many questions to other models as `better`, with a total gain of 0 (to 1e-4 per question)."""
    rows = np.arange(current.size)
    moved = rng.choice(rows, size=int((better != current).sum()), replace=False)
    policy = current.copy()
    policy[moved] = (current[moved] + rng.integers(1, scores.shape[1], moved.size)) % scores.shape[1]
    for row in rng.permutation(moved):  # remove losses until the total gain is 0
        total = float((scores[rows, policy] - scores[rows, current]).sum())
        if abs(total) < 1e-4 * current.size:
            break
        options = scores[row] - scores[row, current[row]]
        options[current[row]] = np.nan
        now = scores[row, policy[row]] - scores[row, current[row]]
        target = now - total
        policy[row] = int(np.nanargmin(np.abs(options - max(-1.0, min(1.0, target)))))
    return policy


def _hashed(texts: list[str], width: int) -> Floats:
    """Unit vectors of hashed words and word pairs, log-scaled counts."""
    out = np.zeros((len(texts), width))
    known: dict[str, int] = {}
    for row, text in enumerate(texts):
        words = text.lower().split()[:200]
        tokens = words + [f"{a} {b}" for a, b in pairwise(words)]
        codes = np.array([known.get(token) or known.setdefault(token, zlib.crc32(token.encode())) for token in tokens])
        if codes.size:
            sign = np.where(codes & 0x80000000, 1.0, -1.0)
            out[row] = np.bincount(codes % width, weights=sign, minlength=width)
    out = np.sign(out) * np.log1p(np.abs(out))
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)


def _cross_ridge(x: Floats, y: Floats, fold: NDArray[np.int64], strength: float) -> Floats:
    """Ridge predictions [n, m] of each row from the rows of other folds."""
    parts = [x[fold == part].T @ x[fold == part] for part in range(fold.max() + 1)]
    gram = np.sum(parts, axis=0)
    out = np.empty_like(y)
    for part, own in enumerate(parts):
        rest = fold != part
        mean = y[rest].mean(axis=0)
        left = gram - own
        left[np.diag_indices_from(left)] += strength
        out[fold == part] = mean + x[fold == part] @ np.linalg.solve(left, x[rest].T @ (y[rest] - mean))
    return out

"""Reward weights by prompt class: code and poems are judged by different signals.

    [tasks.mutate]
    reward = "headway.reward.by_class:mutation_reward"

    weights_of("code generation", confidence=0.9)      # nine tenths class weights, one tenth common weights
    weighed({"passed": 1.0, "tokens": 120}, weights_of("marketing"))

Signals: `passed` and `score` (of the check), `tokens`, `latency_s`, `human` (1-5 stars of a person) and `ai` (1-5, of a
calibrated judge: reward/second_rater.py). The class is the state's `prompt_class`, with `prompt_class_confidence`; a
low confidence or an unknown class moves the weights towards the common ones. A missing signal contributes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headway.nouns.records import Decision

__all__ = ["COMMON", "WEIGHTS", "mutation_reward", "weighed", "weights_of"]

Weights = Mapping[str, float]
COMMON: Weights = MappingProxyType(
    {"passed": 1.0, "score": 0.0, "tokens": -0.0002, "latency_s": -0.005, "human": 0.5, "ai": 0.15}
)
# The check counts most where answers can be checked, people where taste decides, a judge a little.
WEIGHTS: Mapping[str, Weights] = MappingProxyType(
    {
        "code generation": {**COMMON, "passed": 0.8, "score": 0.2, "human": 0.3, "ai": 0.05},
        "code review": {**COMMON, "passed": 0.9, "human": 0.4, "ai": 0.1},
        "content": {**COMMON, "passed": 0.5, "human": 0.8, "ai": 0.25},
        "marketing": {**COMMON, "passed": 0.5, "human": 0.9, "ai": 0.25},
        "data analysis": {**COMMON, "passed": 1.0, "human": 0.2, "ai": 0.05},
        "question answering": {**COMMON, "passed": 1.0, "tokens": -0.0004, "human": 0.3, "ai": 0.1},
        "creative": {**COMMON, "passed": 0.3, "tokens": -0.0001, "human": 1.0, "ai": 0.3},
    }
)


def weights_of(kind: str, confidence: float = 1.0) -> dict[str, float]:
    """The weights of a class, mixed with the common ones by its confidence."""
    share = min(max(confidence, 0.0), 1.0) if kind in WEIGHTS else 0.0
    own = WEIGHTS.get(kind, COMMON)
    return {name: share * own[name] + (1.0 - share) * COMMON[name] for name in COMMON}


def weighed(signals: Mapping[str, float], weights: Weights) -> float:
    """The sum; stars count as (stars - 3) / 2."""
    total = 0.0
    for name, weight in weights.items():
        if name in signals:
            value = signals[name]
            total += weight * ((value - 3.0) / 2.0 if name in {"human", "ai"} else value)
    return total


def mutation_reward(decision: Decision | None, signals: Mapping[str, float]) -> float:
    """The reward of a decision of the task `mutate`."""
    state = decision.situation.state if decision is not None else {}
    kind, confidence = state.get("prompt_class", ""), state.get("prompt_class_confidence", 1.0)
    share = float(confidence) if isinstance(confidence, int | float) else 0.0
    return weighed(signals, weights_of(str(kind), share))

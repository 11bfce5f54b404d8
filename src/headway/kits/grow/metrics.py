"""What metrics.jsonl says about an update, one JSON object per line.

| field | meaning |
|---|---|
| `explained_variance` | of the returns by the critic: 1 is perfect, 0 knows the mean alone |
| `heads.NAME` | `entropy` (normalised, over steps that use the head), `use`, `gradient_norm`, `clip_fraction` |
| `lead` | how often each choice of the first head was taken; `value_error` of the critic by that choice |
| `idle_alarm` | a choice that uses no other head took more than 98% of the steps |
| `memory` | mean magnitude of `hidden` state and `cell` by the step of the episode, in at most 16 ranges |
| `credit` | quantiles of the world's hindsight credit |
| `advantage_by_lag` | correlation of an action's advantage with the reward so many steps later, in the same episode |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.collect import Sequences
from headway.kits.grow.factored.space import Factored
from headway.kits.grow.update import Judged, RecurrentUpdate

LAGS = (0, 1, 2, 5, 10, 20, 50, 75, 100)
_ALARM = 0.98
_RANGES = 16


def update_metrics(space: Factored, sequences: Sequences, updated: RecurrentUpdate) -> dict[str, Any]:
    """The metrics of one update."""
    judged = updated.judged
    assert judged is not None, "an update has judged its rollout"
    lead = sequences.actions[..., 0].cpu().numpy()
    shares = {name: float((lead == place).mean()) for place, name in enumerate(space.lead.choices)}
    told: dict[str, Any] = {
        "episodes": len(sequences.returns),
        "mean_return": float(np.mean(sequences.returns)) if sequences.returns else None,
        "mean_length": float(np.mean(sequences.lengths)) if sequences.lengths else None,
        "explained_variance": judged.explained_variance,
        **updated.stats,
        "passes": updated.passes,
        "first_ratios": list(updated.first_ratios),
        "heads": updated.heads,
        "lead": shares,
        "value_error": _errors(space, lead, judged),
        "idle_alarm": _idle(space, shares),
        "memory": _by_age(sequences),
        "advantage_by_lag": _by_lag(sequences, judged),
    }
    if sequences.credits.size:
        marks = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
        values = np.quantile(sequences.credits, marks)
        told["credit"] = {f"{mark:g}": float(value) for mark, value in zip(marks, values, strict=True)}
    if sequences.metrics:
        told["world"] = sequences.metrics
    return told


def _errors(space: Factored, lead: NDArray[Any], judged: Judged) -> dict[str, float]:
    """Mean squared error of the critic, by the lead's choice."""
    square = np.square(judged.returns - judged.values)
    return {
        name: float(square[lead == place].mean())
        for place, name in enumerate(space.lead.choices)
        if (lead == place).any()
    }


def _idle(space: Factored, shares: dict[str, float]) -> bool:
    if len(space.heads) == 1:
        return False
    idle = [name for name, counts in zip(space.lead.choices, space.relevant, strict=True) if not any(counts[1:])]
    return any(shares[name] > _ALARM for name in idle)


def _by_age(sequences: Sequences) -> dict[str, dict[str, float]]:
    if sequences.magnitudes is None:
        return {}
    ages = sequences.ages.ravel()
    width = 1
    while width * _RANGES <= int(ages.max()):
        width *= 2  # so that updates have the same ranges, even if their longest episodes differ
    found: dict[str, dict[str, float]] = {"hidden": {}, "cell": {}}
    for begin in range(0, int(ages.max()) + 1, width):
        inside = (ages >= begin) & (ages < begin + width)
        if inside.any():
            means = sequences.magnitudes.reshape(-1, 2)[inside].mean(axis=0).tolist()
            for part, mean in zip(found.values(), means, strict=True):
                part[str(begin)] = mean
    return found


def _by_lag(sequences: Sequences, judged: Judged) -> dict[str, float]:
    done = sequences.terminated | sequences.truncated
    episode: NDArray[Any] = np.cumsum(done, axis=0) - done  # which episode of its copy a step belongs to
    told: dict[str, float] = {}
    for lag in LAGS:
        if lag >= len(done):
            break
        same: NDArray[np.bool_] = episode[lag:] == episode[: len(done) - lag]
        later, advantage = sequences.rewards[lag:][same], judged.advantages[: len(done) - lag][same]
        if len(later) > 2 and later.std() > 0.0 and advantage.std() > 0.0:
            told[str(lag)] = float(np.corrcoef(advantage, later)[0, 1])
    return told

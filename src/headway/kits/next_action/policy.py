"""The ranker: predicts the reward of described candidates, with a calibrated interval.

    policy.opinions(situations, candidates, seeds, std=True)     # mean and std by candidate
    policy.rivals()                                              # what it must beat: linear, the mean of a type

prediction = centre + scale·(regression(state, action) + correction), where the correction is a transformer's and is
absent in the architecture `linear`. `std` is such that ±1.2816·std held 80% of the tuning rows' rewards. A candidate
gets the same bits alone, in any set and in a replay.

Not covered: what a sequence of actions earns; every prediction is of the next action alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.decide import damaged, explore, tensor
from headway.kits.next_action.layout import ActionInputs, Layout, StateInputs, state_key, type_of, widths
from headway.kits.next_action.measures import measure, sign_accuracy
from headway.kits.next_action.regression import Regression, read_regression
from headway.kits.next_action.shapes import ARCHITECTURES, SIZES, RankerShape
from headway.nouns import Candidate, Encoder, Floats, Opinions, Settled, Situation

Z80 = 1.2815515655446004  # ±Z80 deviations hold 80% of a normal distribution
_MOST_SPREAD = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranker:
    """The policy of the family `ranker`. Immutable; safe from threads."""

    family = "ranker"
    layout: Layout
    encoder: Encoder | None
    regression: Regression
    centre: float
    scale: float
    spread: float
    types: Mapping[str, float]
    scorer: Callable[[StateInputs, ActionInputs], Any] | None
    knobs: Mapping[str, Any]
    until: float

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, std
        mean, deviation = self.predict(situations, candidates)
        sure = _confidence(mean, deviation) if confidence else None
        return Opinions(explore.greedy(mean), sure, mean=mean, std=deviation)

    def predict(self, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> tuple[Floats, Floats]:
        """Predicted rewards and their deviations, [situation, candidate]."""
        states, actions = self.layout.states(situations, self.encoder), self.layout.actions(candidates, self.encoder)
        scores = self.regression(states, actions)
        spread = np.ones_like(scores)
        if self.scorer is not None:
            own = ActionInputs.of(self.layout, actions)
            for row, situation in enumerate(situations):
                state = StateInputs.of(self.layout, states[row : row + 1], (situation,))
                outputs = self.scorer(state, own).astype(np.float64)
                scores[row] += outputs[:, 0]
                spread[row] = np.exp(np.clip(outputs[:, 1], -_MOST_SPREAD, _MOST_SPREAD))
        return self.centre + self.scale * scores, self.scale * self.spread * spread

    def check(self, candidates: Sequence[Candidate]) -> None:
        """Refuse candidates with a field that the training rows did not have."""
        self.layout.check(candidates)

    def rivals(self) -> dict[str, RankerRival]:
        """The simple models that it must beat to be promoted, fitted on the same rows."""
        rivals = {"the mean of its type": RankerRival(self._by_type)}
        if self.scorer is not None:
            rivals["linear"] = RankerRival(self._linear)
        return rivals

    def report(self, rows: Sequence[Settled]) -> list[str]:
        """How well it predicts logged rows, beside simple guesses."""
        told = [row for row in rows if row.reward is not None]
        taken = [row.decision.candidates[row.decision.index] for row in told]
        asked = [(row.decision.situation,) for row in told]
        pairs = [self.predict(situation, (action,)) for situation, action in zip(asked, taken, strict=True)]
        mean, deviation = np.array([float(m[0, 0]) for m, _ in pairs]), np.array([float(d[0, 0]) for _, d in pairs])
        reward = np.array([float(row.reward or 0.0) for row in told])
        mine = measure(mean, reward, [_group(row.decision.situation) for row in told], Z80 * deviation)
        typed = sign_accuracy(np.array([self.types.get(type_of(action), self.centre) for action in taken]), reward)
        positive = sign_accuracy(np.ones(len(reward)), reward)
        majority = None if positive is None else max(positive, 1.0 - positive)

        def shown(value: float | None) -> str:
            return "unknown" if value is None else f"{value:.2f}"

        line = (
            f"On {len(told):,} held-out rows: sign accuracy {shown(mine.sign_accuracy)} (majority {shown(majority)}, "
            f"mean of the type {shown(typed)}), rank correlation within a state {shown(mine.rank_correlation)}, regret "
            f"of the first choice {shown(mine.regret)}, 80% intervals hold {shown(mine.coverage)}."
        )
        return [line]

    def _by_type(self, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> Floats:
        row = [self.types.get(type_of(candidate), self.centre) for candidate in candidates]
        return np.tile(np.array(row), (len(situations), 1))

    def _linear(self, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> Floats:
        states, actions = self.layout.states(situations, self.encoder), self.layout.actions(candidates, self.encoder)
        return self.centre + self.scale * self.regression(states, actions)


class RankerRival:
    """A simple model as a policy that predicts rewards."""

    family = "ranker_rival"

    def __init__(self, means: Callable[[Sequence[Situation], Sequence[Candidate]], Floats]) -> None:
        self._means = means

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, confidence, std
        mean = self._means(situations, candidates)
        return Opinions(explore.greedy(mean), None, mean=mean)


def _group(situation: Situation) -> str:
    """The state of a row as evidence groups it; fields that leak would make every row a state of its own."""
    return situation.episode or state_key(situation)


def _confidence(mean: Floats, deviation: Floats) -> Floats:
    """The probability that the first choice earns more than the second, by their predictions."""
    if mean.shape[1] < 2:
        return np.ones(len(mean))
    rows = np.arange(len(mean))
    first, second = np.argsort(-mean, axis=1, kind="stable")[:, :2].T
    lead = mean[rows, first] - mean[rows, second]
    noise = np.sqrt(deviation[rows, first] ** 2 + deviation[rows, second] ** 2) * math.sqrt(2.0)
    return np.array([0.5 * (1.0 + math.erf(a / b)) for a, b in zip(lead, noise, strict=True)])


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> Ranker:
    """The policy from a learner's tensors and JSON. The input is untrusted: a mismatch is refused as damaged."""
    layout = Layout.from_json(extra.get("layout"), encoder)
    architecture = extra.get("architecture")
    if architecture not in ARCHITECTURES:
        raise damaged(f"The bundle has the architecture {architecture!r:.40}", "bad_header")
    regression = read_regression(tensors, layout)
    centre, scale, spread = tensor(tensors, "units", 3, limit=1e12).tolist()
    if not (scale > 0.0 and spread > 0.0):
        raise damaged("The bundle's scales are not above 0", "bad_tensor")
    types = extra.get("type_means")
    if not isinstance(types, Mapping) or not all(
        isinstance(mean, int | float) and math.isfinite(mean) for mean in types.values()
    ):
        raise damaged("The bundle's means by type cannot be used", "bad_header")
    until = extra.get("until", 0.0)
    if not isinstance(until, int | float) or not math.isfinite(until):
        raise damaged("The bundle's last time cannot be used", "bad_header")
    return Ranker(
        layout=layout, encoder=encoder, regression=regression, centre=centre, scale=scale, spread=spread,
        types=dict(types), scorer=_scorer(layout, tensors, extra, architecture), knobs=knobs, until=float(until),
    )  # fmt: skip


def _scorer(layout: Layout, tensors: Mapping[str, Any], extra: Mapping[str, Any], architecture: str) -> Any:
    if architecture not in SIZES:
        return None
    from headway.kits.next_action.graph import Scorer

    shape = RankerShape.from_json(extra.get("shape"), **widths(layout))
    return Scorer(shape, {name: restored(tensors, name, size) for name, size in shape.tensors().items()})


def restored(tensors: Mapping[str, Any], name: str, size: tuple[int, ...], *, prefix: str = "net.") -> Any:
    """A weight of the transformer in float32, also from 8 bits with a step per column."""
    name = f"{prefix}{name}"
    if f"{name}.step" not in tensors:
        return tensor(tensors, name, *size, limit=1e6, float32=True).astype(np.float32)
    step = tensor(tensors, f"{name}.step", size[-1], limit=1e6, float32=True)
    small = tensors.get(name)
    if not isinstance(small, np.ndarray) or small.dtype != np.uint8 or small.shape != size:
        raise damaged(f"The tensor {name!r} is not uint8 of shape {size}", "bad_tensor")
    return ((small.astype(np.float32) - 128.0) * step).astype(np.float32)

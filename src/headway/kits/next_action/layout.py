"""States and described candidates as vectors.

    layout = Layout.fit(situations, candidates, encoder)
    layout.states(situations, encoder)       # [row, …]: text, numbers, categories of a state
    layout.actions(candidates, encoder)      # [row, …]: text, type, scope and files of a candidate
    layout.steps(situations)                 # [row, 8, 2]: the last changes, and whether there was one

Both sides use the features of the core: statistics and vocabularies are those of the training rows, a word that was
not seen falls into the bucket "…", and a row alone has the same bits as in any batch.

What the transformer reads, cut from the vectors of a layout; the same for training and for serving.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features, Tracker
from headway.kits.next_action.linear import LinearRows
from headway.kits.next_action.shapes import STEPS
from headway.nouns import Candidate, Encoder, Floats, Settled, Situation, Value, errors
from headway.observe import dumps

FIELDS = ("name", "type", "description", "scope", "files_affected")
_TRAJECTORY = "recent_deltas"
_SHARE, _MOST_TESTS = "tests_failing_share", 10**12
_MOST_STEP = 8.0
Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How states and candidates of one task become vectors. Immutable."""

    state: Features
    action: Features
    step_scale: float

    @classmethod
    def fit(cls, situations: Sequence[Situation], candidates: Sequence[Candidate], encoder: Encoder | None) -> Layout:
        changes = [abs(change) for situation in situations for change in _steps(situation)]
        return cls(
            state=Tracker(map(_with_share, situations)).features(encoder),
            action=Tracker(_described(candidate) for candidate in candidates).features(encoder),
            step_scale=max(float(np.mean(changes)), 1e-9) if changes else 1.0,
        )

    @classmethod
    def from_json(cls, body: Any, encoder: Encoder | None) -> Layout:
        """The layout of a bundle's header; the input is untrusted."""
        if not isinstance(body, Mapping) or not all(isinstance(body.get(key), Mapping) for key in ("state", "action")):
            raise errors.Damaged("The bundle has no layout.", code="bad_header")
        scale = body.get("step_scale")
        if not isinstance(scale, int | float) or not 0.0 < scale < math.inf:
            raise errors.Damaged("The bundle's layout has no usable scale.", code="bad_header")
        layout = cls(
            state=Features.from_json(body["state"]), action=Features.from_json(body["action"]), step_scale=float(scale)
        )
        for features in (layout.state, layout.action):
            if features.encoder and (encoder is None or encoder.version != features.encoder):
                raise errors.Damaged(
                    f"The policy needs the encoder {features.encoder!r}, not {getattr(encoder, 'version', None)!r}.",
                    code="encoder_mismatch",
                    hint="Set `encoder` of the task to the one that it was learned with, or learn again.",
                )
        return layout

    def to_json(self) -> dict[str, Any]:
        return {"state": self.state.to_json(), "action": self.action.to_json(), "step_scale": self.step_scale}

    def states(self, situations: Sequence[Situation], encoder: Encoder | None) -> Floats:
        return self.state.vectors([_with_share(situation) for situation in situations], encoder)

    def actions(self, candidates: Sequence[Candidate], encoder: Encoder | None) -> Floats:
        return self.action.vectors([_described(candidate) for candidate in candidates], encoder)

    def steps(self, situations: Sequence[Situation]) -> Floats:
        steps = np.zeros((len(situations), STEPS, 2))
        for row, situation in enumerate(situations):
            for place, change in enumerate(reversed(_steps(situation))):
                steps[row, STEPS - 1 - place] = (min(max(change / self.step_scale, -_MOST_STEP), _MOST_STEP), 1.0)
        return steps

    @property
    def types(self) -> tuple[str, ...]:
        """The types of action that the training rows had."""
        return next((values for name, values in self.action.categories if name == "type"), ())

    def check(self, candidates: Iterable[Candidate]) -> None:
        """Refuse a field that neither every candidate may have nor the training rows had."""
        features = self.action
        known = {*FIELDS, *features.numbers, *features.sequences, *(name for name, _ in features.categories)}
        known |= {name for name, _ in features.vectors_of}
        for place, candidate in enumerate(candidates):
            for field in candidate.features:
                if field not in known:
                    raise errors.InvalidInput(
                        f"Candidate {place} ({candidate.name[:40]!r}) has the field {field!r}, "
                        "which no training row had.",
                        code="unknown_field",
                        hint=errors.did_you_mean(field, sorted(known)),
                    )


def type_of(candidate: Candidate) -> str:
    """Its type, or its name where it has none."""
    return str(candidate.features.get("type") or ("" if candidate.features else candidate.name))


def _with_share(situation: Situation) -> Situation:
    """The situation with the share of its tests that fail: no model here divides one number by another."""
    state = situation.state
    passing, total = state.get("tests_passing"), state.get("tests_total")
    if not isinstance(passing, int | float) or not isinstance(total, int | float) or _SHARE in state:
        return situation
    if not 0 <= passing <= total <= _MOST_TESTS or not total:
        return situation
    return replace(situation, state={**state, _SHARE: 1.0 - passing / total})


def _described(candidate: Candidate) -> Situation:
    """A candidate as a text with a state, for the core's features."""
    features = candidate.features
    text = features.get("description") or candidate.name
    state: dict[str, Value] = {name: value for name, value in features.items() if name != "description"}
    if not features:  # a declared action: its name is all there is
        state["name"] = candidate.name
    return Situation(task="", text=str(text), state=state)


def _steps(situation: Situation) -> list[float]:
    changes = situation.state.get(_TRAJECTORY)
    if not isinstance(changes, Sequence) or isinstance(changes, str):
        return []
    return [float(change) for change in changes[-STEPS:]]


@dataclass(frozen=True, slots=True)
class StateInputs:
    text: Singles  # [state, width]
    numbers: Singles
    steps: Singles  # [state, 8, 2]

    @classmethod
    def of(cls, layout: Layout, vectors: Floats, situations: Sequence[Situation]) -> StateInputs:
        text, numbers = _cut(layout.state, vectors, widths(layout)["text"])
        return cls(text, numbers, layout.steps(situations).astype(np.float32))


@dataclass(frozen=True, slots=True)
class ActionInputs:
    text: Singles  # [action, width]
    traits: Singles

    @classmethod
    def of(cls, layout: Layout, vectors: Floats) -> ActionInputs:
        return cls(*_cut(layout.action, vectors, widths(layout)["text"]))


def widths(layout: Layout) -> dict[str, Any]:
    """Of the texts, of a state's numbers and of an action's traits; at least one column each."""
    state, action = layout.state, layout.action
    return {
        "text": max(state.text_width, action.text_width, 1),
        "numbers": state.width - state.text_width,
        "traits": action.width - action.text_width,
    }


def _cut(features: Features, vectors: Floats, width: int) -> tuple[Singles, Singles]:
    """Text with entries of about 1, and everything else with the constant."""
    text = np.zeros((len(vectors), width), np.float32)
    own = features.text_width
    text[:, :own] = vectors[:, 1 : 1 + own] * np.sqrt(max(own, 1))
    rest = np.concatenate([vectors[:, :1], vectors[:, 1 + own :]], axis=1)
    return text, rest.astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRows:
    """One row per tuple. `centre` and `scale`: of the training rows' rewards."""

    situations: Sequence[Situation]  # one per state
    owner: NDArray[np.int64]  # [row] → state
    states: Floats  # [state, …]
    actions: Floats  # [row, …]
    types: Sequence[str]
    reward: Floats
    weight: Floats
    centre: float
    scale: float
    layout: Layout

    @property
    def units(self) -> Floats:
        """Rewards in units of their deviation."""
        scaled: Floats = (self.reward - self.centre) / self.scale
        return scaled

    def linear(self, places: NDArray[np.int64] | None = None) -> LinearRows:
        """Some rows for the linear model; all of them by default."""
        keep = np.arange(len(self.reward)) if places is None else places
        text = (self.layout.state.text_width, self.layout.action.text_width)
        return LinearRows(self.states[self.owner[keep]], self.actions[keep], self.units[keep], self.weight[keep], text)

    def inputs(self) -> tuple[StateInputs, ActionInputs]:
        return StateInputs.of(self.layout, self.states, self.situations), ActionInputs.of(self.layout, self.actions)

    def type_means(self) -> dict[str, float]:
        """The mean reward of every type, shrunk a little to the mean of all."""
        means: dict[str, float] = {}
        for name in sorted(set(self.types)):
            mine = np.array([kind == name for kind in self.types])
            total = float(self.weight[mine].sum())
            means[name] = (float((self.weight * self.reward)[mine].sum()) + self.centre) / (total + 1.0)
        return means


def state_key(situation: Situation) -> str:
    """What two tuples of the same state share."""
    return dumps([situation.episode or "", situation.text, dict(situation.state), situation.role])


def rows_of(
    rows: Sequence[Settled], layout: Layout, encoder: Encoder | None, mined: float, *, units: RankedRows | None = None
) -> RankedRows:
    """`mined`: the weight of a row with a mined label. `units`: rows whose centre and scale are used."""
    places: dict[str, int] = {}
    situations: list[Situation] = []
    owner: list[int] = []
    for row in rows:
        key = state_key(row.decision.situation)
        if key not in places:
            places[key] = len(situations)
            situations.append(row.decision.situation)
        owner.append(places[key])
    taken = [row.decision.candidates[row.decision.index] for row in rows]
    reward = np.array([float(row.reward or 0.0) for row in rows])
    weight = np.array([row.weight * (mined if row.decision.source == "mined" else 1.0) for row in rows])
    weight = np.maximum(weight, 1e-6)
    if units is None:
        centre = float(np.average(reward, weights=weight))
        scale = float(np.sqrt(np.average((reward - centre) ** 2, weights=weight)))
    else:
        centre, scale = units.centre, units.scale
    return RankedRows(
        situations=situations,
        owner=np.array(owner, dtype=np.int64),
        states=layout.states(situations, encoder),
        actions=layout.actions(taken, encoder),
        types=[type_of(candidate) for candidate in taken],
        reward=reward,
        weight=weight,
        centre=centre,
        scale=scale if scale > 1e-12 else 1.0,
        layout=layout,
    )

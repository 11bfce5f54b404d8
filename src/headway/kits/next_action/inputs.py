"""What the transformer reads, cut from the vectors of a layout; the same for training and for serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.kits.next_action.layout import Layout
from headway.nouns import Floats, Situation

Singles = NDArray[np.float32]


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

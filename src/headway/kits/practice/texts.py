"""A network that practised on embeddings, as a policy that acts on text.

    seen = Standardised(encoder, texts)                  # each feature with mean 0 and deviation 1 on these texts
    fitted = practise(lambda count: PromptsWorld(count, prompts, seen, judge), settings, seed)
    on_text(fitted, encoder, seen)                       # Learned: takes the encoder's own vectors

Standardising is a matter of learning; it is folded into the first layer's weights, so that the policy sees a text's
features as any other policy of the task does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headway.encode.state import LIMIT, Features
from headway.kits.practice.fit import Fitted
from headway.kits.practice.learner import learned
from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Encoder, Floats, Learned

__all__ = ["Standardised", "on_text"]


class Standardised:
    """An encoder whose features have mean 0 and deviation 1 on given texts, and none lies beyond ±8 there."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._encoder = encoder
        self.version, self.width = encoder.version, encoder.width
        rows = encoder.encode(texts)
        self.means = rows.mean(axis=0)
        away = rows - self.means
        scales = np.maximum(away.std(axis=0), np.abs(away).max(axis=0) / LIMIT)
        # What none of the texts has is left small: nothing is known about it.
        self.scales = np.where(scales > 1e-6, scales, 1.0)

    def encode(self, texts: Sequence[str]) -> Floats:
        found: Floats = (self._encoder.encode(texts) - self.means) / self.scales
        return found


def on_text(fitted: Fitted, encoder: Encoder, seen: Standardised | None = None, *, arms: Sequence[str]) -> Learned:
    """The practised network with a text's own features as its input: a bias, the embedding, and the text's length."""
    if fitted.settings.normalise_observations:
        raise InvalidInput(
            "Observations were standardised as they came, which a text's features are not.",
            code="bad_knob",
            hint="Leave normalise_observations away.",
        )
    found = learned(fitted, arms=arms)
    features = Features(encoder=encoder.version, text_width=encoder.width, means=(0.0,), scales=(1.0,))
    tensors = dict(found.tensors)
    for name in ("policy.w0", "value.w0"):  # a column of zeros: the length is not looked at
        weights = np.concatenate([tensors[name], np.zeros((len(tensors[name]), 1))], axis=1)
        if seen is not None:
            weights[:, 1:-1] = weights[:, 1:-1] / seen.scales
            weights[:, 0] -= weights[:, 1:-1] @ seen.means
        tensors[name] = weights
    return replace(found, tensors=tensors, extra={**found.extra, "features": features.to_json()})

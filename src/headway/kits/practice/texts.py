"""Turns a network that practised on embeddings into a policy that acts on text.

    seen = Standardised(encoder, texts)                  # each feature with mean 0 and deviation 1 on these texts
    fitted = practise_in(lambda count: PromptsWorld(count, prompts, seen, judge), settings, seed)
    on_text(fitted, encoder, seen)                       # Learned: its input is the encoder's vectors

Standardising helps learning; it is folded into the first layer's weights, so that the policy takes the same text
features as any other policy of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headway.encode import Features
from headway.kits.practice.fit import Fitted
from headway.kits.practice.learner import learned
from headway.nouns import Encoder, Floats, Learned, errors


class Standardised:
    """An encoder whose features have mean 0 and deviation 1 on given texts, and stay within ±8."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._encoder = encoder
        self.version, self.width = encoder.version, encoder.width
        rows = encoder.encode(texts)
        self.means = rows.mean(axis=0)
        away = rows - self.means
        scales = np.maximum(away.std(axis=0), np.abs(away).max(axis=0) / Features.LIMIT)
        # A feature that no text has stays small: nothing is known about it.
        self.scales = np.where(scales > 1e-6, scales, 1.0)

    def encode(self, texts: Sequence[str]) -> Floats:
        vectors: Floats = (self._encoder.encode(texts) - self.means) / self.scales
        return vectors


def on_text(fitted: Fitted, encoder: Encoder, seen: Standardised | None = None, *, arms: Sequence[str]) -> Learned:
    """The practised network with text features as its input: a bias, the embedding, and the text's length."""
    if fitted.settings.normalise_observations:
        raise errors.InvalidInput(
            "Observations were standardised during practice, but text features are not.",
            code="bad_knob",
            hint="Omit normalise_observations.",
        )
    result = learned(fitted, arms=arms)
    features = Features(encoder=encoder.version, text_width=encoder.width, means=(0.0,), scales=(1.0,))
    tensors = dict(result.tensors)
    for name in ("policy.w0", "value.w0"):  # a column of zeros: the length is not used
        weights = np.concatenate([tensors[name], np.zeros((len(tensors[name]), 1))], axis=1)
        if seen is not None:
            weights[:, 1:-1] = weights[:, 1:-1] / seen.scales
            weights[:, 0] -= weights[:, 1:-1] @ seen.means
        tensors[name] = weights
    return replace(result, tensors=tensors, extra={**result.extra, "features": features.to_json()})

"""Rewards that need no rater: relevance, style and length, each −1 to 1, as signals beside stars and thumbs.

    relevance(encoder, [("What is rust?", "Rust is …")])      # cosine of the embeddings of question and reply
    Style.learn(encoder, liked, disliked).score(texts)        # what this rater likes, as a direction of embeddings
    length(tokens, low=7, high=24)                            # 1 inside, falling to −1 outside

    reward = { stars = "stars", relevance = 0.2, style = 0.2, length = 0.1 }

A length reward alone is answered with nothing at all: the gate refuses what comes of it (empty replies).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Encoder

__all__ = ["Style", "length", "relevance"]

_RIDGE = 1.0


def relevance(encoder: Encoder, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The cosine of the embeddings of two texts; 0 for an empty one."""
    if not pairs:
        return []
    one, other = (_unit(encoder.encode([pair[side] for pair in pairs])) for side in (0, 1))
    cosine = (one * other).sum(-1)
    filled = [bool(first.strip() and second.strip()) for first, second in pairs]
    return [float(value) if full else 0.0 for value, full in zip(cosine, filled, strict=True)]


def length(tokens: int, *, low: int, high: int) -> float:
    """1 for a length inside the limits; outside it falls by the distance, to −1 at twice as long or at nothing."""
    if not 0 < low <= high:
        raise InvalidInput(
            f"The limits {low} to {high} are not in order.", code="bad_length", hint="Use 0 < low <= high."
        )
    if tokens < low:
        return 2.0 * tokens / low - 1.0
    return max(-1.0, 1.0 - 2.0 * max(0, tokens - high) / high)


class Style:
    """What one rater likes: ridge regression of rewards on embeddings of replies."""

    def __init__(self, encoder: Encoder, direction: NDArray[np.float64], scale: float) -> None:
        self._encoder, self.direction, self._scale = encoder, direction, scale

    @classmethod
    def learn(cls, encoder: Encoder, texts: Sequence[str], rewards: Sequence[float]) -> Style:
        """From a rater's replies and rewards; with none, every style is worth 0."""
        vectors = _unit(encoder.encode(list(texts))) if texts else np.zeros((0, encoder.width))
        given = np.asarray(rewards, float)
        middle = given - given.mean() if len(given) else given
        centre = vectors - vectors.mean(0) if len(vectors) else vectors
        gram = centre.T @ centre + _RIDGE * np.eye(encoder.width)
        direction = np.linalg.solve(gram, centre.T @ middle) if len(given) else np.zeros(encoder.width)
        spread = float(np.abs(centre @ direction).max()) if len(given) else 0.0
        return cls(encoder, direction, spread or 1.0)

    def score(self, texts: Sequence[str]) -> list[float]:
        """How much the rater would like the style of each text, −1 to 1."""
        if not texts:
            return []
        raw = _unit(self._encoder.encode(list(texts))) @ self.direction / self._scale
        return [float(value) for value in np.clip(raw, -1.0, 1.0)]


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(vectors, float)
    unit: NDArray[np.float64] = values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)
    return unit

"""Rewards that need no rater: relevance, style and length, each −1 to 1, as signals beside stars and thumbs.

    relevance(encoder, [("What is rust?", "Rust is …")])      # cosine of the embeddings of question and reply
    Style.learn(encoder, liked, disliked).score(texts)        # what this rater likes, as a direction of embeddings
    length(tokens, low=7, high=24)                            # 1 inside, falling to −1 outside

    reward = { stars = "stars", relevance = 0.2, style = 0.2, length = 0.1 }

`shape` gives them to the rated replies of a task whose reward has them, before its adapter is learned.

A length reward alone is answered with nothing at all: the gate refuses what comes of it (empty replies).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.kits.reply.kept import KeptReply, kept
from headway.kits.reply.learn.data import cluster_of
from headway.kits.reply.settings import reply_settings
from headway.nouns import Encoder, Settled, errors
from headway.project import Project
from headway.settings import TaskSettings

SHAPING = ("relevance", "style", "length")
_RIDGE = 1.0
_FEWEST = 10  # ratings from which a rater has a style
_NEW = 0.05  # a value that moved by less is not stored again
_SOURCE = "headway"


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
        raise errors.InvalidInput(
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


def shape(project: Project, task: str) -> int:
    """Store relevance, style and length of the rated replies of a task, where its reward has them; how many changed.

    The encoder is the task's. A style is learned from the ratings of other questions only: each half of them is scored
    by what the other half taught.
    """
    settings = project.settings.task(task)
    wanted = [name for name in SHAPING if not isinstance(settings.reward, str) and name in settings.reward]
    if not wanted:
        return 0
    project.settle(task)
    rows = [(row, reply) for row, reply in kept(project, task) if row.reward is not None and row.raters]
    values = {name: _shaped(project, settings, name, rows) for name in wanted}
    changed = 0
    for place, (row, _) in enumerate(rows):
        now = {name: round(values[name][place], 4) for name in wanted}
        if any(abs(row.signals.get(name, np.inf) - value) > _NEW for name, value in now.items()):
            changed += project.signal(row.decision.id, now, rater=_SOURCE)
    if changed:
        project.settle(task)
    return changed


def _shaped(
    project: Project, settings: TaskSettings, name: str, rows: Sequence[tuple[Settled, KeptReply]]
) -> list[float]:
    """One of the computed rewards, for every reply."""
    if name == "length":
        low, high = reply_settings(settings).reply_length
        counts = [len(reply.tokens) or len(reply.text.split()) for _, reply in rows]
        return [length(count, low=low, high=high) for count in counts]
    encoder = project.servings.encoder(settings.encoder)
    if name == "style":
        return styles(encoder, rows)
    return relevance(encoder, [(row.decision.situation.text, reply.text) for row, reply in rows])


def styles(encoder: Encoder, rows: Sequence[tuple[Settled, KeptReply]]) -> list[float]:
    """The mean over raters with a style of how much each would like a reply; 0 without one."""
    texts = [reply.text for _, reply in rows]
    halves = [_half(row.decision.situation.text) for row, _ in rows]
    given = [ratings for ratings in _ratings(rows).values() if len(ratings) >= _FEWEST]
    totals = np.zeros(len(rows))
    for ratings in given:
        for half in (0, 1):
            other = [(place, value) for place, value in ratings if halves[place] != half]
            style = Style.learn(encoder, [texts[place] for place, _ in other], [value for _, value in other])
            mine = [place for place in range(len(rows)) if halves[place] == half]
            totals[mine] += style.score([texts[place] for place in mine])
    return [float(value) for value in totals / max(1, len(given))]


def _ratings(rows: Sequence[tuple[Settled, KeptReply]]) -> dict[str, list[tuple[int, float]]]:
    """rater → the places of what people rated, with their rating."""
    given: dict[str, list[tuple[int, float]]] = {}
    for place, (row, _) in enumerate(rows):
        for rater in row.raters:
            if rater != _SOURCE:
                given.setdefault(rater, []).append((place, _rating(row.signals)))
    return given


def _half(question: str) -> int:
    """0 or 1, the same for all replies to a question."""
    return zlib.crc32(cluster_of(question).encode()) & 1


def _rating(signals: Mapping[str, float]) -> float:
    """What people said, −1 to 1, without what was computed."""
    return (signals["stars"] - 3.0) / 2.0 if "stars" in signals else signals.get("thumb", 0.0)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(vectors, float)
    unit: NDArray[np.float64] = values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)
    return unit

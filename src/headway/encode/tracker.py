"""Find the features of a stream of situations and their statistics, in one pass and bounded memory.

fit(situations, encoder)                      # → Features
tracker = Tracker(); tracker.add(situation); tracker.features(encoder)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from headway.encode.state import Features, summarise
from headway.nouns import Encoder, Situation, errors

_CHUNK = 4096
_LONGEST = 512  # a longer sequence is summarised even if its length never varies
_VALUES = 32  # per category get a separate entry
_WATCHED = 1024  # distinct values of a category are counted before rare ones are dropped
_NAMES = 2048  # distinct state names are tracked


def fit(situations: Iterable[Situation], encoder: Encoder | None = None) -> Features:
    """The features of these situations. Text is used if there is an encoder and any text is not empty."""
    return Tracker(situations).features(encoder)


class _Moments:
    """Count, mean and squared deviations of equally long rows, merged chunk by chunk (Chan et al., 1983)."""

    __slots__ = ("count", "mean", "pending", "spread")

    def __init__(self) -> None:
        self.count, self.pending = 0, list[Any]()
        self.mean: Any = 0.0
        self.spread: Any = 0.0

    def add(self, row: Any) -> None:
        self.pending.append(row)
        if len(self.pending) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        if not self.pending:
            return
        rows = np.array(self.pending, dtype=np.float64)
        self.pending = []
        count, mean = len(rows), rows.mean(axis=0)
        spread = ((rows - mean) ** 2).sum(axis=0)
        total, shift = self.count + count, mean - self.mean
        self.mean = self.mean + shift * (count / total)
        self.spread = self.spread + spread + shift * shift * (self.count * count / total)
        self.count = total

    def scale(self) -> Any:
        """The deviation; 1 where the value never changed, so that it is 0 after centring."""
        deviation = np.sqrt(self.spread / max(self.count, 1))
        return np.where(deviation > 1e-9 * np.maximum(1.0, np.abs(self.mean)), deviation, 1.0)


class Tracker:
    """Tracks a stream of situations; `features()` may be called at any time."""

    def __init__(self, situations: Iterable[Situation] = ()) -> None:
        self._length = _Moments()
        self._any_text = False
        self._numbers: dict[str, _Moments] = {}
        self._whole: dict[tuple[str, int], _Moments] = {}  # (name, length) → every element
        self._summary: dict[str, _Moments] = {}
        self._categories: dict[str, Counter[str]] = {}
        for situation in situations:
            self.add(situation)

    def add(self, situation: Situation) -> None:
        self._any_text = self._any_text or bool(situation.text)
        self._length.add(math.log1p(len(situation.text)))
        if situation.role:
            self._category("role", situation.role)
        for name, value in situation.state.items():
            if isinstance(value, str):
                self._category(name, value)
            elif isinstance(value, int | float):
                if not math.isfinite(value):
                    raise errors.InvalidInput(
                        f"The state has {name!r} = {value!r}.", code="not_finite", hint="Omit it."
                    )
                _tracked(self._numbers, name).add(float(value))
            else:
                if not all(math.isfinite(number) for number in value):
                    raise errors.InvalidInput(
                        f"The state's {name!r} is not finite.", code="not_finite", hint="Omit it."
                    )
                _tracked(self._summary, name).add(summarise(value))
                if 0 < len(value) <= _LONGEST and sum(1 for known, _ in self._whole if known == name) < 2:
                    self._whole.setdefault((name, len(value)), _Moments()).add(tuple(value))

    def features(self, encoder: Encoder | None = None) -> Features:
        for moment in (self._length, *self._numbers.values(), *self._whole.values(), *self._summary.values()):
            moment.flush()
        means: list[float] = []
        scales: list[float] = []

        def take(moments: _Moments) -> None:
            means.extend(np.atleast_1d(moments.mean).tolist())
            scales.extend(np.atleast_1d(moments.scale()).tolist())

        text = encoder if self._any_text else None
        if text is not None:
            take(self._length)
        numbers = tuple(sorted(self._numbers))
        for name in numbers:
            take(self._numbers[name])
        # A sequence counts as a vector if it had the same length in every row that contained it.
        vectors = sorted((name, n) for (name, n), m in self._whole.items() if m.count == self._summary[name].count)
        for key in vectors:
            take(self._whole[key])
        fixed = {name for name, _ in vectors}
        sequences = tuple(sorted(name for name in self._summary if name not in fixed))
        for name in sequences:
            take(self._summary[name])
        return Features(
            encoder=text.version if text is not None else "",
            text_width=text.width if text is not None else 0,
            numbers=numbers,
            vectors_of=tuple(vectors),
            sequences=sequences,
            categories=tuple((name, _frequent(counts)) for name, counts in sorted(self._categories.items())),
            means=tuple(means),
            scales=tuple(scales),
        )

    def _category(self, name: str, value: str) -> None:
        if name not in self._categories and len(self._categories) >= _NAMES:
            return
        counts = self._categories.setdefault(name, Counter())
        counts[value] += 1
        if len(counts) > _WATCHED:
            self._categories[name] = Counter(dict(counts.most_common(_WATCHED // 2)))


def _tracked(table: dict[str, _Moments], name: str) -> _Moments:
    if name not in table and len(table) >= _NAMES:
        raise errors.InvalidInput(
            f"The state has more than {_NAMES} different names; {name!r} exceeds the limit.",
            code="bad_state",
            hint="Use a few fixed names; put free text into `text`.",
        )
    return table.setdefault(name, _Moments())


def _frequent(counts: Counter[str]) -> tuple[str, ...]:
    """The most frequent values, in alphabetical order, so that the layout does not depend on the order of rows."""
    return tuple(sorted(value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]))

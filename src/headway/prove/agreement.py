"""Tests whether columns agree with a label more often than by chance, for `leaks`.

Each test takes (row, value, label) triples of the rows that have both, and returns the leak and the rows that show it,
or None. `chance` is the agreement of independent columns with the same values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headway.nouns import plural, served

Kind = Literal["equals", "affine", "contains", "determines", "text", "dated"]
_LEAST = 5  # rows with the field and a label
_SURE = -5.0  # log10 of the probability of this much agreement by chance
_FEW = 12  # a label with at most this many different values has few
_SHIFTS = 10  # other rows' labels to compare a row with, to estimate chance agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A field that reveals the label. Training omits `field`; `where` is the exact place."""

    field: str
    where: str
    kind: Kind
    label: str
    hits: int
    rows: int

    @served
    def message(self) -> str:
        what = {
            "equals": "is the label",
            "affine": "is the label, scaled and shifted",
            "contains": "contains the label",
            "determines": "determines the label",
            "text": "states the label in its text",
            "dated": "is later than the outcome",
        }[self.kind]
        return f"{self.where} {what} ({self.label}) in {self.hits:,} of {plural(self.rows, 'row')}"


def base_of(where: str) -> str:
    """The field that a place belongs to: recent_deltas[-1] → recent_deltas."""
    return where.partition("[")[0]


LeakRows = tuple[Leak, set[int]]
Triples = Sequence[tuple[int, Any, float]]


def _key(value: float) -> float:
    """The same key for numbers that differ only by a conversion to text or float32."""
    return float(f"{value:.9g}")


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= 1e-9 * max(1.0, abs(y))


def _enough(label_values: Sequence[float]) -> float:
    """The required share of agreement: nearly all rows for a label with few values, half for any other."""
    return 0.98 if len({_key(label_value) for label_value in label_values}) <= _FEW else 0.5


def numeric(where: str, label: str, pairs: Triples) -> LeakRows | None:
    """A number that is the label, or the label scaled and shifted."""
    n = len(pairs)
    xs, ys = Counter(_key(x) for _, x, _ in pairs), Counter(_key(y) for _, _, y in pairs)
    if n < _LEAST or len(xs) < 2 or len(ys) < 2:
        return None
    hits = {place for place, x, y in pairs if _close(x, y)}
    chance = sum(count * ys[value] for value, count in xs.items()) / n**2
    if len(hits) >= n * _enough([y for _, _, y in pairs]) and _unlikely(len(hits), n, chance):
        return Leak(field=base_of(where), where=where, kind="equals", label=label, hits=len(hits), rows=n), hits
    # Each x has one y and each y one x: count the other orders of the same labels.
    if abs(_correlation(pairs)) >= 1.0 - 1e-9 and _orders(ys.values()) >= -_SURE:
        every = {place for place, _, _ in pairs}
        return Leak(field=base_of(where), where=where, kind="affine", label=label, hits=n, rows=n), every
    if n >= 30 and min(len(xs), len(ys)) > _FEW and abs(_correlation(pairs)) >= 0.9999:
        every = {place for place, _, _ in pairs}
        return Leak(field=base_of(where), where=where, kind="affine", label=label, hits=n, rows=n), every
    return None


def contained(where: str, label: str, pairs: Triples) -> LeakRows | None:
    """Lists that contain the label of their row."""
    return _held("contains", f"{where}[]", label, pairs, _holds)


def stated(where: str, label: str, pairs: Triples) -> LeakRows | None:
    """Texts that state the label of their row; the values come from `nouns.words.spoken`."""
    return _held("text", where, label, pairs, _states)


def _held(
    kind: Literal["contains", "text"],
    where: str,
    label: str,
    pairs: Triples,
    holds: Callable[[Any, float], bool],
) -> LeakRows | None:
    """Values that hold their own row's label much more often than other rows' labels."""
    n = len(pairs)
    if n < _LEAST or len({_key(y) for _, _, y in pairs}) < 2:
        return None
    hits = {place for place, x, y in pairs if holds(x, y)}
    least = 0.3 * n if kind == "text" else n * _enough([y for _, _, y in pairs])
    if len(hits) < max(_LEAST, least):
        return None
    shifts = [k * max(1, n // (_SHIFTS + 1)) for k in range(1, _SHIFTS + 1) if k * max(1, n // (_SHIFTS + 1)) < n]
    others = sum(1 for k in shifts for i in range(n) if holds(pairs[i][1], pairs[(i + k) % n][2]))
    chance = (others + 1) / (len(shifts) * n + 2)
    if not _unlikely(len(hits), n, chance):
        return None
    return Leak(field=base_of(where), where=where, kind=kind, label=label, hits=len(hits), rows=n), hits


def _holds(values: tuple[float, ...], label: float) -> bool:
    return any(_close(value, label) for value in values)


def _states(values: tuple[tuple[float, float], ...], label: float) -> bool:
    return any(abs(value - label) <= half for value, half in values)


def categories(where: str, label: str, pairs: Triples) -> LeakRows | None:
    """A few words that each occur with one value of the label only."""
    n = len(pairs)
    values: dict[str, set[float]] = {}
    for _, word, y in pairs:
        values.setdefault(word, set()).add(_key(y))
    ys = Counter(_key(y) for _, _, y in pairs)
    if n < _LEAST or not 2 <= len(values) <= n / 5 or len(ys) < 2 or any(len(value) > 1 for value in values.values()):
        return None
    same = sum((count / n) ** 2 for count in ys.values())
    if (n - len(values)) * math.log10(same) > _SURE:
        return None
    every = {place for place, _, _ in pairs}
    return Leak(field=base_of(where), where=where, kind="determines", label=label, hits=n, rows=n), every


# -- chance


def _unlikely(hits: int, n: int, chance: float) -> bool:
    """Whether independent columns agree this often with probability below 1e-5 (a bound on the binomial tail)."""
    if chance >= 1.0:
        return False
    ways = math.lgamma(n + 1) - math.lgamma(hits + 1) - math.lgamma(n - hits + 1)
    return (ways + hits * math.log(max(chance, 1e-300))) / math.log(10.0) <= _SURE


def _orders(counts: Iterable[int]) -> float:
    """log10 of the number of distinct orders of labels with these counts."""
    counts = list(counts)
    return (math.lgamma(sum(counts) + 1) - sum(math.lgamma(count + 1) for count in counts)) / math.log(10.0)


def _correlation(pairs: Sequence[tuple[int, float, float]]) -> float:
    n = len(pairs)
    mean_x, mean_y = math.fsum(x for _, x, _ in pairs) / n, math.fsum(y for _, _, y in pairs) / n
    xx = math.fsum((x - mean_x) ** 2 for _, x, _ in pairs)
    yy = math.fsum((y - mean_y) ** 2 for _, _, y in pairs)
    xy = math.fsum((x - mean_x) * (y - mean_y) for _, x, y in pairs)
    return xy / math.sqrt(xx * yy) if xx > 0.0 and yy > 0.0 else 0.0

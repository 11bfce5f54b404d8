"""Where two policies choose differently because of one key's ratings, in words.

    rated = RatedChoices(rows, chosen, trained=len(trained))    # rows that the candidate was trained on, then others
    rated.region(instead, by_others, reward)                    # 'text contains "zebra-7" (3% of …' or ""

`chosen` is what the candidate would do, `instead` what it would do had this key rated nothing. That they differ on
borderline situations is natural: fewer rows were learned from. It is one key's doing in two cases:

- It alone has rated there: less than a fifth of the rows of the region are rated by others, which is too few to be
  chance, given how much the others rate elsewhere. The region is a word, a field's value, or two of these; or all rows
  that no policy has read and on which the choices differ.
- The others did rate there, and their ratings of rows that no policy has read show that the candidate's choices are
  worse.

Words and values are tested by how often who rated them, not by the rewards, so a key that rates at random is named
with probability of at most 0.1%, however many words there are. A key that is alone in rating one sort of traffic is
named if that changes choices there: nobody else can confirm them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats, Settled, Situation
from headway.observe import words_of_text

Flags = NDArray[np.bool_]

_LEAST_ROWS, _LEAST_SHARE = 5, 0.003
_OTHERS = 0.2  # of the rows of a region that others must have rated
_CHANCE = log(1000.0)  # a key is named by chance once in a thousand times
_WORSE, _BETTER, _SPEAKING = 3.3, 2.0, 20  # standard errors; and the rows that they need
_PAIRED = 24  # traits that are also tested in pairs
_BINS = 8
_LENGTH = "length of the text"


class Traits:
    """What situations have in common: words of the text, values of fields (ranges of numbers), the role."""

    def __init__(self, situations: Sequence[Situation]) -> None:
        self.count = len(situations)
        edges = _edges(situations)
        by_name: dict[str, list[int]] = {}
        for place, situation in enumerate(situations):
            for name in _traits(situation, edges):
                by_name.setdefault(name, []).append(place)
        self.rows = {
            name: np.array(places, dtype=np.int64)
            for name, places in by_name.items()
            if _LEAST_ROWS <= len(places) <= 0.9 * self.count
        }


def _traits(situation: Situation, edges: dict[str, Floats]) -> set[str]:
    names = {f'text contains "{word}"' for word in words_of_text(situation.text)}
    if situation.role:
        names.add(f"role = {situation.role}")
    for name, value in _numbers(situation):
        if name in edges:
            place = int(np.searchsorted(edges[name], value, side="right"))
            low = f"{edges[name][place - 1]:.4g} ≤ " if place else ""
            high = f" < {edges[name][place]:.4g}" if place < len(edges[name]) else ""
            names.add(f"{low}{name}{high}")
        elif name != _LENGTH:
            names.add(f"{name} = {value:g}")
    names |= {f"{name} = {value}" for name, value in situation.state.items() if isinstance(value, bool | str)}
    return names


def _numbers(situation: Situation) -> Iterable[tuple[str, float]]:
    yield _LENGTH, float(len(situation.text))
    for name, value in situation.state.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


def _edges(situations: Sequence[Situation]) -> dict[str, Floats]:
    """Of numbers with many values: where the ranges begin that hold equally many rows."""
    values: dict[str, list[float]] = {}
    for situation in situations:
        for name, value in _numbers(situation):
            values.setdefault(name, []).append(value)
    cuts = np.linspace(0.0, 1.0, _BINS + 1)[1:-1]
    return {
        name: np.unique(np.quantile(numbers, cuts)) for name, numbers in values.items() if len(set(numbers)) > 2 * _BINS
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The choices of two policies on the same rows, and who rated these."""

    traits: Traits
    chosen: NDArray[np.str_]
    instead: NDArray[np.str_]
    by_others: Flags  # rated by somebody beside the key
    read: Flags  # a policy was trained on the row
    gain: Floats  # the unbiased difference of the two choices by the others' ratings; NaN: the row cannot speak

    @property
    def differ(self) -> Flags:
        differ: Flags = self.chosen != self.instead
        return differ


class RatedChoices:
    """The rows that choices are compared on, and what the candidate would choose in each.

    The first `trained` rows are those that it was trained on.
    """

    def __init__(self, rows: Sequence[Settled], chosen: Sequence[str], *, trained: int) -> None:
        self._rows, self._chosen = rows, np.array(chosen, dtype=np.str_)
        self._read = np.arange(len(rows)) < trained
        self._traits = Traits([row.decision.situation for row in rows])

    def region(self, instead: Sequence[str], by_others: Sequence[bool], reward: Callable[[Settled], float]) -> str:
        """Where one key alone decides; empty if nowhere. `reward`: of a row, by the others' ratings; NaN: none."""
        other, rated = np.array(instead, dtype=np.str_), np.array(by_others, dtype=np.bool_)
        gain = self._gain(other, rated, reward)
        return region(Comparison(self._traits, self._chosen, other, rated, self._read, gain))

    def _gain(self, instead: NDArray[np.str_], by_others: Flags, reward_of: Callable[[Settled], float]) -> Floats:
        """Per row ([A = chosen] − [A = instead]) / μ(A) · (r − mean of r), by the others' ratings of unread rows."""
        reward = np.full(len(self._rows), np.nan)
        for place in np.flatnonzero(by_others & ~self._read & (self._chosen != instead)).tolist():
            reward[place] = reward_of(self._rows[place])
        if np.isnan(reward).all():
            return reward
        action = np.array([row.decision.action for row in self._rows])
        propensity = np.array([row.decision.propensity or 1.0 for row in self._rows])
        sign = (action == self._chosen).astype(np.float64) - (action == instead)
        gain: Floats = sign / propensity * (reward - np.nanmean(reward))
        return gain


@dataclass(frozen=True, slots=True)
class _Region:
    name: str
    rows: NDArray[np.int64]
    changed: int  # of these
    within: tuple[str, ...] = ()  # the two that it is made of


def region(comparison: Comparison) -> str:
    """The region that the key alone decides, in words; empty if there is none."""
    differ = comparison.differ
    if int(differ.sum()) < _LEAST_ROWS:
        return ""
    regions = _regions(comparison)
    share = float(comparison.by_others.mean())
    least = _CHANCE + log(max(1, len(regions)))
    confirmed = {  # whose parts must be rated less than they are
        where.name: float(comparison.by_others[where.rows].mean())
        for where in regions
        if _certainty(comparison, where.rows[differ[where.rows]]) >= _BETTER
    }

    def usual(where: _Region) -> float:
        return min(confirmed.get(name, share) for name in (where.name, *where.within))

    alone = [where for where in regions if _alone(comparison, where.rows, usual(where), least)]
    if alone:
        return _said(comparison, _clearest(alone))
    unread = np.flatnonzero(differ & ~comparison.read)
    if _matters(comparison, len(unread)) and _alone(comparison, unread, share, _CHANCE):
        return _said(comparison, _summary(regions, unread))
    everywhere = np.flatnonzero(differ)
    for where in (_Region("", everywhere, len(everywhere)), *([_clearest(regions)] if regions else [])):
        if _matters(comparison, where.changed) and _certainty(comparison, where.rows) <= -_WORSE:
            return _said(comparison, where if where.name else _summary(regions, everywhere), worse=True)
    return ""


def _matters(comparison: Comparison, rows: int) -> bool:
    return rows >= max(_LEAST_ROWS, _LEAST_SHARE * comparison.traits.count)


def _regions(comparison: Comparison) -> list[_Region]:
    """Words, values and pairs of these where the choices differ more than elsewhere."""
    differ, total = comparison.differ, comparison.traits.count
    changed = int(differ.sum())
    rows_of = comparison.traits.rows
    counts = {name: int(differ[rows].sum()) for name, rows in rows_of.items()}
    most = sorted((name for name in counts if counts[name] >= _LEAST_ROWS), key=lambda name: (-counts[name], name))
    regions = [_Region(name, rows_of[name], counts[name]) for name in most]
    only_key = differ & ~comparison.by_others
    paired = Counter({name: int(only_key[rows_of[name]].sum()) for name in most}).most_common(_PAIRED)
    for (one, _), (other, _) in combinations(paired, 2):
        rows = np.intersect1d(rows_of[one], rows_of[other], assume_unique=True)
        both = int(differ[rows].sum())
        if both >= _LEAST_ROWS and len(rows) < min(len(rows_of[one]), len(rows_of[other])):
            regions.append(_Region(f"{one} and {other}", rows, both, (one, other)))

    def stands_out(where: _Region) -> bool:
        elsewhere = (changed - where.changed) / max(1, total - len(where.rows))
        return where.changed >= max(0.1, 2.0 * elsewhere) * len(where.rows)

    return [where for where in regions if stands_out(where)]


def _alone(comparison: Comparison, rows: NDArray[np.int64], share: float, least: float) -> bool:
    """Whether the key is alone there, beyond chance, and the others' few ratings do not confirm the choices."""
    n = len(rows)
    if n < _LEAST_ROWS:
        return False
    here = float(comparison.by_others[rows].mean())
    if here >= _OTHERS or here >= share or n * _divergence(here, share) < least:
        return False
    return _certainty(comparison, rows[comparison.differ[rows]]) < _BETTER


def _divergence(p: float, q: float) -> float:
    """Relative entropy of two coins: exp(−n · this) bounds the chance that n throws of q look like p < q (Chernoff)."""
    if q >= 1.0:
        return 0.0 if p >= 1.0 else inf
    gone = (1.0 - p) * log((1.0 - p) / (1.0 - q))
    return gone if p <= 0.0 else gone + p * log(p / q)


def _certainty(comparison: Comparison, rows: NDArray[np.int64]) -> float:
    """By how many standard errors the others' ratings of unread rows prefer the candidate there; 0: too few."""
    gain = comparison.gain[rows]
    gain = gain[~np.isnan(gain)]
    if np.count_nonzero(gain) < _SPEAKING:
        return 0.0
    error = float(gain.std(ddof=1)) / sqrt(gain.size)
    return float(gain.mean()) / error if error > 0.0 else 0.0


def _clearest(regions: Sequence[_Region]) -> _Region:
    """The one that explains most of the difference; of equals, the one in which most rows differ."""
    return max(regions, key=lambda where: (where.changed, -len(where.rows), -len(where.name)))


def _summary(regions: Sequence[_Region], rows: NDArray[np.int64]) -> _Region:
    """A word or value that half of these rows have in common, or the rows themselves."""
    common = [where for where in regions if np.isin(rows, where.rows).sum() * 2 >= len(rows)]
    return _clearest(common) if common else _Region("no word or value tells them apart", rows, len(rows))


def _said(comparison: Comparison, where: _Region, *, worse: bool = False) -> str:
    differ = where.rows[comparison.differ[where.rows]]
    pairs = Counter(zip(comparison.chosen[differ].tolist(), comparison.instead[differ].tolist(), strict=True))
    (chosen, instead), _ = pairs.most_common(1)[0]
    share = len(where.rows) / comparison.traits.count
    size = f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
    rated = float(comparison.by_others[where.rows].mean())
    others = "nobody else has rated these" if rated == 0.0 else f"others have rated {rated:.0%} of these"
    why = "the others' ratings show that this is worse" if worse else others
    return f"{where.name} ({size} of decisions): it would choose {chosen} instead of {instead}, and {why}"

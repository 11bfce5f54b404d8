"""Finds fields of the situation that give the outcome away: they equal, contain or determine the label.

    watch = LeakDetector()
    watch.add(situation, action, {"reward": 0.3}, part="train", at=…, told_at=…)
    watch.leaks()                                # Leaks(found=(Leak(field="recent_deltas", kind="equals", …),), …)

A field leaks if it agrees with the label far more often than by chance: the probability of this much agreement between
independent columns is below 1e-5, and at least 98% of the rows agree (half, for labels with many values). So a strong
predictor is not a leak; a perfect one is.

- `equals`: a number, the head or the tail of a list is the label;
- `affine`: it is a·label + b, also rounded;
- `contains`: the label is one of a list's numbers;
- `determines`: each of a few words occurs with one value of the label only;
- `text`: the text states the label, to the digits that it shows;
- `dated`: a time in the state is later than the outcome.

It is in this room and not in `observe` because import, learning and `doctor` all reach it through `project`, and it
only judges. Not covered: leaks that only several fields together show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headway.nouns import Candidate, Situation, served, spoken
from headway.prove.agreement import Kind, Leak, LeakRows, categories, contained, numeric, stated

__all__ = ["Leak", "LeakDetector", "Leaks", "Twins", "normalised"]

_MOST = 5000  # rows in the sample; beyond, every other one is dropped
_MOST_VALUES = 1_000_000  # rows times fields to compare with a label
_TIME_NAME = re.compile(r"(?:^|[_.\-])(?:at|ts|time|date|timestamp|datetime)\Z|(?:At|Time|Date)\Z", re.ASCII)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_WORDS = re.compile(r"[^\w]+")
_TWINS = 200_000  # different texts in the index


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """The leaks in a sample. `flagged` of `labelled` rows have at least one leaky value."""

    found: tuple[Leak, ...] = ()
    rows: int = 0
    looked_at: int = 0
    labelled: int = 0
    flagged: int = 0
    backwards: int = 0  # outcomes dated before their decision
    twins: int = 0  # rows of the prove part whose normalised text is also in the train part
    exact_twins: int = 0  # of these, with the exact text

    @served
    def fields(self) -> tuple[str, ...]:
        """What training must omit: a field, or (`text:numbers`) the numbers in a text."""
        return tuple(sorted({f"{leak.field}:numbers" if leak.kind == "text" else leak.field for leak in self.found}))


def normalised(text: str) -> str:
    """A text without case, spaces and punctuation, in which two copies may differ."""
    return _WORDS.sub(" ", text.casefold()).strip()


_Sampled = tuple[Situation, Candidate | None, Mapping[str, float]]  # with the action and the labels


@dataclass(slots=True)
class _Row:
    numbers: dict[str, float] = field(default_factory=dict)
    lists: dict[str, tuple[float, ...]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    spoken: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # value and half its last digit
    times: dict[str, float] = field(default_factory=dict)
    labels: Mapping[str, float] = field(default_factory=dict)
    told_at: float | None = None


class Twins:
    """Counts texts on both sides of the split over all rows, in bounded memory."""

    def __init__(self) -> None:
        self._near: dict[int, list[int]] = {}  # hash → rows in train, rows in prove
        self._exact: dict[int, list[int]] = {}

    def add(self, text: str, part: str) -> None:
        if not text or not part:
            return
        side = 1 if part == "prove" else 0
        for table, key in ((self._near, normalised(text)), (self._exact, text)):
            number = hash(key)  # of 64 bits, and only compared with others of this process
            counts = table.get(number)
            if counts is None:
                if len(table) >= _TWINS:
                    continue
                counts = table[number] = [0, 0]
            counts[side] += 1

    def counts(self) -> tuple[int, int]:
        """Rows of the prove part with a near twin, and with an exact one, in the train part."""
        near, exact = (
            sum(proved for trained, proved in table.values() if trained) for table in (self._near, self._exact)
        )
        return near, exact


class LeakDetector:
    """Collects rows as they stream by; `leaks()` may be called at any time."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._stride = most, 1
        self._rows: list[_Row] = []
        self._seen = 0
        self._backwards = 0
        self.twins = Twins()

    def add(
        self,
        situation: Situation,
        action: Candidate | None,
        labels: Mapping[str, float],
        *,
        part: str = "",
        at: float | None = None,
        told_at: float | None = None,
    ) -> None:
        """Add one row; `labels` are the relevant signals and the reward, `part` its side of the split."""
        self.add_lazily(lambda: (situation, action, labels), situation.text, part, at, told_at)

    def add_lazily(
        self, row: Callable[[], _Sampled], text: str, part: str, at: float | None, told_at: float | None
    ) -> None:
        """The same; the row is made only if it is looked at."""
        self.twins.add(text, part)
        if at is not None and told_at is not None and told_at < at - 1e-3:
            self._backwards += 1
        self._seen += 1
        if (self._seen - 1) % self._stride:
            return
        self._rows.append(_row(*row(), told_at))
        if len(self._rows) >= 2 * self._most:
            self._rows = self._rows[::2]
            self._stride *= 2

    def leaks(self) -> Leaks:
        """The leaks in the rows so far."""
        names = sorted({name for row in self._rows for name in row.labels})
        leaks: list[Leak] = []
        flagged: set[int] = set()
        places = {name for row in self._rows[:100] for name in (*row.numbers, *row.lists, *row.spoken, *row.words)}
        step = max(1, len(self._rows) * len(places) // _MOST_VALUES)  # fewer rows where states have very many fields
        for label in names:
            rows = [(place, row) for place, row in enumerate(self._rows) if label in row.labels][::step]
            for leak, hit in _of_label(label, rows):
                leaks.append(leak)
                flagged.update(hit)
        dated, late = _dated(self._rows)
        leaks += dated
        flagged |= late
        near, exact = self.twins.counts()
        return Leaks(
            found=tuple(_strongest(leaks)),
            rows=self._seen,
            looked_at=len(self._rows),
            labelled=sum(1 for row in self._rows if row.labels),
            flagged=sum(1 for place in flagged if self._rows[place].labels),
            backwards=self._backwards,
            twins=near,
            exact_twins=exact,
        )


# -- one row


def _row(situation: Situation, action: Candidate | None, labels: Mapping[str, float], told_at: float | None) -> _Row:
    row = _Row(labels=dict(labels), told_at=told_at)
    _take(row, "", situation.state)
    if action is not None:
        _take(row, "action.", action.features)
    if situation.text:
        row.spoken["text"] = spoken(situation.text)
    return row


def _take(row: _Row, prefix: str, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        place = f"{prefix}{name}"
        if isinstance(value, str):
            if len(value) <= 40:
                row.words[place] = value
            row.spoken[place] = spoken(value)
        elif isinstance(value, (bool, int, float)):
            row.numbers[place] = float(value)
        elif isinstance(value, Sequence) and len(value):
            row.numbers[f"{place}[0]"], row.numbers[f"{place}[-1]"] = float(value[0]), float(value[-1])
            row.lists[place] = tuple(map(float, value[:512]))
        moment = _moment(name, value)
        if moment is not None:
            row.times[place] = moment


def _moment(name: str, value: object) -> float | None:
    """The time in a value: an ISO text, or seconds or milliseconds in a field whose name means a time."""
    if isinstance(value, str):
        if not _ISO.match(value):
            return None
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _TIME_NAME.search(name):
        return None
    if 1e9 <= value < 1e10:
        return float(value)
    return value / 1000.0 if 1e12 <= value < 1e13 else None


# -- one label


def _of_label(label: str, rows: Sequence[tuple[int, _Row]]) -> Iterable[LeakRows]:
    """Every place in the rows that gives this label away."""
    tests: tuple[tuple[str, Callable[[str, str, Any], LeakRows | None]], ...] = (
        ("numbers", numeric),
        ("lists", contained),
        ("spoken", stated),
        ("words", categories),
    )
    for kind, test in tests:
        table = [(place, getattr(row, kind), row.labels[label]) for place, row in rows]
        for where in sorted({name for _, values, _ in table for name in values}):
            leak = test(where, label, [(place, values[where], y) for place, values, y in table if where in values])
            # The action is known when it is chosen, and may legitimately determine its reward.
            if leak is not None and not (where.startswith("action.") and leak[0].kind in ("affine", "determines")):
                yield leak


def _dated(rows: Sequence[_Row]) -> tuple[list[Leak], set[int]]:
    """Times in the state that are later than the outcome."""
    leaks, late = [], set[int]()
    for where in sorted({name for row in rows for name in row.times}):
        timed = [(place, row) for place, row in enumerate(rows) if where in row.times and row.told_at is not None]
        hits = {place for place, row in timed if row.told_at is not None and row.times[where] > row.told_at + 1e-3}
        if hits and len(hits) >= 0.2 * len(timed):
            leaks.append(Leak(field=where, where=where, kind="dated", label="time", hits=len(hits), rows=len(timed)))
            late |= hits
    return leaks, late


def _strongest(leaks: Iterable[Leak]) -> list[Leak]:
    """One leak per field and label: the most exact statement about it."""
    order: tuple[Kind, ...] = ("equals", "affine", "contains", "determines", "text", "dated")
    best: dict[tuple[str, str], Leak] = {}
    for leak in leaks:
        key = (leak.field, leak.label)
        rank = (-leak.hits / max(leak.rows, 1), order.index(leak.kind), leak.where != f"{leak.field}[-1]")
        if key not in best or rank < _rank(best[key], order):
            best[key] = leak
    return [best[key] for key in sorted(best)]


def _rank(leak: Leak, order: tuple[Kind, ...]) -> tuple[float, int, bool]:
    return (-leak.hits / max(leak.rows, 1), order.index(leak.kind), leak.where != f"{leak.field}[-1]")
